// Linears and embeddings for tensor parallelism as modules of torch::nn, for new models; parallelize.h divides those of
// a model that exists. Not part of partita.h, because it includes torch's modules.
//
//   ColumnParallelLinear up(64, 256, mesh);                        // each rank has a part of the 256 features
//   RowParallelLinear down(256, 64, mesh);                         // all ranks have the sum
//   torch::Tensor y = down(torch::gelu(up(torch::ones({5, 64}))));
//
// Parameters are on the mesh's device, fp32, and begin as the module of torch does that has the same sizes, on the
// group's first rank. Construction is collective over the tensor-parallel group, and so is forward, in the manner and
// with the errors of parallelize.h. The mesh must outlive the modules. They cannot be constructed
// lazily.
#pragma once
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "partita/module/parallelize.h"

namespace partita {

// y [..., outputs of this rank] = x [..., inputs] W' + b.
struct ColumnParallelLinearImpl : torch::nn::Module {
  struct Options {
    bool bias = true;
    int64_t parts = 1, quantum = 1;  // of TensorRule
    bool gather = false;             // y [..., outputs] on every rank
  };
  ColumnParallelLinearImpl(int64_t inputs, int64_t outputs, const Mesh&, const Options&);
  ColumnParallelLinearImpl(int64_t inputs, int64_t outputs, const Mesh& mesh)
      : ColumnParallelLinearImpl(inputs, outputs, mesh, Options{}) {}
  torch::Tensor forward(const torch::Tensor& x);
  torch::Tensor weight, bias;  // this rank's rows
};
TORCH_MODULE(ColumnParallelLinear);

// y [..., outputs], the sum over ranks, = x [..., inputs of this rank] W' + b.
struct RowParallelLinearImpl : torch::nn::Module {
  struct Options {
    bool bias = true;
    int64_t quantum = 1;  // of TensorRule
  };
  RowParallelLinearImpl(int64_t inputs, int64_t outputs, const Mesh&, const Options&);
  RowParallelLinearImpl(int64_t inputs, int64_t outputs, const Mesh& mesh)
      : RowParallelLinearImpl(inputs, outputs, mesh, Options{}) {}
  torch::Tensor forward(const torch::Tensor& x);
  torch::Tensor weight, bias;  // this rank's columns; all of the bias
};
TORCH_MODULE(RowParallelLinear);

// Rows of a table [vocabulary, width] whose rows are divided, for indices of any shape.
struct VocabularyParallelEmbeddingImpl : torch::nn::Module {
  VocabularyParallelEmbeddingImpl(int64_t vocabulary, int64_t width, const Mesh&);
  torch::Tensor forward(const torch::Tensor& indices);
  // As the head of a model with tied weights: logits [..., vocabulary of this rank] of x [..., width], for
  // vocabulary_cross_entropy.
  torch::Tensor logits(const torch::Tensor& x);
  torch::Tensor weight;  // this rank's rows
};
TORCH_MODULE(VocabularyParallelEmbedding);

}  // namespace partita
