#include "partita/nn/embedding.h"

#include "partita/ops/embedding.h"

namespace partita::internal {

std::vector<ParameterSpec> Embedding::parameters() const {
  const Init init{.mean = 0, .std = options_.init_std};
  std::vector<ParameterSpec> list = {{.name = "embedding.token.weight",
                                      .shape = {options_.vocabulary, options_.width},
                                      .init = init,
                                      .decay = true,
                                      .split = Split::rows}};
  if (options_.positions > 0)
    list.push_back({.name = "embedding.position.weight",
                    .shape = {options_.positions, options_.width},
                    .init = init,
                    .decay = true,
                    .split = Split::rows});
  return list;
}

Residual Embedding::forward(Weights w, Residual, Context& context, Saved&) const {
  embedding_forward(context.outputs.branch, context.batch->tokens, context.batch->positions, w[kToken],
                    options_.positions > 0 ? w[kPosition] : at::Tensor());
  return {.sum = {}, .branch = context.outputs.branch};
}

ResidualGrad Embedding::backward(Weights, ResidualGrad d, Context& context, Saved&, Grads& grads) const {
  embedding_backward(grads.target(kToken), options_.positions > 0 ? grads.target(kPosition) : Target{}, d.branch,
                     context.batch->tokens, context.batch->positions);
  return {};
}

}  // namespace partita::internal
