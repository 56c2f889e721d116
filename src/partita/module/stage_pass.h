// Forward and backward of some consecutive parts of a model for one micro-batch, recorded by autograd. The backward may
// be made in two: gradients of the inputs, then those of parameters.
//
//   StagePass pass(parts, inputs, /*defers=*/true);
//   ... pass.outputs() go to the next stage, the gradients of those that require one come back ...
//   pass.input_gradients(gradients);                 // of differentiable(pass.inputs())
//   pass.weight_gradients();
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "partita/module/deferred_gradients.h"
#include "partita/module/pipeline_part.h"

namespace partita::internal {

// Those of the tensors whose gradients stages pass to each other.
[[nodiscard]] std::vector<at::Tensor> differentiable(const std::vector<at::Tensor>&);

class StagePass {
 public:
  // inputs: those that require gradients are leaves. defers: gradients of linears can be left to weight_gradients; the
  // parts' weights must have the operand key. before: is called before the forward of parts[part].
  StagePass(std::span<const PipelinePart> parts, std::vector<at::Tensor> inputs, bool defers,
            const std::function<void(size_t part)>& before = {});

  [[nodiscard]] const std::vector<at::Tensor>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<at::Tensor>& outputs() const { return outputs_; }
  // Replaces the outputs by what follows from them, such as a loss.
  void set_outputs(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }

  // Adds the gradients of the parameters, as backward() does, and returns those of differentiable inputs.
  [[nodiscard]] std::vector<at::Tensor> backward(const std::vector<at::Tensor>& of_outputs);
  // Adds none of the parameters' gradients before weight_gradients.
  [[nodiscard]] std::vector<at::Tensor> input_gradients(const std::vector<at::Tensor>& of_outputs);
  void weight_gradients();

 private:
  [[nodiscard]] std::vector<at::Tensor> trained() const;
  std::span<const PipelinePart> parts_;
  std::vector<at::Tensor> inputs_, outputs_;
  std::shared_ptr<DeferredGradients> deferred_;     // null: it does not defer
  std::vector<at::Tensor> parameters_, gradients_;  // that are computed and not added yet
};

}  // namespace partita::internal
