#include "partita/module/tensor_modules.h"

#include <torch/nn/functional/embedding.h>
#include <torch/nn/functional/linear.h>

#include <string>

namespace partita {
namespace {

namespace functional = torch::nn::functional;

// A parameter of the module, from one of torch's module of the whole sizes.
torch::Tensor take(torch::nn::Module& module, const std::string& name, const torch::Tensor& whole, const Mesh& mesh,
                   const std::string& kind, const TensorRule& rule) {
  if (!whole.defined()) return {};
  const torch::Tensor parameter = module.register_parameter(name, whole.detach().to(mesh.device()));
  TensorRule of_kind = rule;
  of_kind.module = kind;
  parallelize({{kind + "." + name, parameter}}, mesh, {of_kind});
  return parameter;
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(int64_t inputs, int64_t outputs, const Mesh& mesh,
                                                   const Options& options)
    : Module("ColumnParallelLinear") {
  const torch::nn::Linear whole(torch::nn::LinearOptions(inputs, outputs).bias(options.bias));
  const TensorRule rule{
      .role = TensorRole::column, .parts = options.parts, .quantum = options.quantum, .gather = options.gather};
  weight = take(*this, "weight", whole->weight, mesh, name(), rule);
  bias = take(*this, "bias", whole->bias, mesh, name(), rule);
}

torch::Tensor ColumnParallelLinearImpl::forward(const torch::Tensor& x) { return functional::linear(x, weight, bias); }

RowParallelLinearImpl::RowParallelLinearImpl(int64_t inputs, int64_t outputs, const Mesh& mesh, const Options& options)
    : Module("RowParallelLinear") {
  const torch::nn::Linear whole(torch::nn::LinearOptions(inputs, outputs).bias(options.bias));
  const TensorRule rule{.role = TensorRole::row, .quantum = options.quantum};
  weight = take(*this, "weight", whole->weight, mesh, name(), rule);
  bias = take(*this, "bias", whole->bias, mesh, name(), rule);
}

torch::Tensor RowParallelLinearImpl::forward(const torch::Tensor& x) { return functional::linear(x, weight, bias); }

VocabularyParallelEmbeddingImpl::VocabularyParallelEmbeddingImpl(int64_t vocabulary, int64_t width, const Mesh& mesh)
    : Module("VocabularyParallelEmbedding") {
  const torch::nn::Embedding whole(vocabulary, width);
  weight = take(*this, "weight", whole->weight, mesh, name(), {.role = TensorRole::vocabulary, .gather = false});
}

torch::Tensor VocabularyParallelEmbeddingImpl::forward(const torch::Tensor& indices) {
  return functional::embedding(indices, weight);
}

torch::Tensor VocabularyParallelEmbeddingImpl::logits(const torch::Tensor& x) { return functional::linear(x, weight); }

}  // namespace partita
