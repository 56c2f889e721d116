#include "partita/module/torch_optimizer.h"

#include <torch/optim/optimizer.h>

#include <utility>

#include "partita/base/error.h"

namespace partita::internal {

TorchOptimizer::TorchOptimizer(const MakeTorchOptimizer& make, std::vector<Part> parts, size_t groups)
    : parts_(std::move(parts)) {
  std::vector<std::vector<at::Tensor>> slices(groups);
  for (const Part& part : parts_)
    for (int u = 0; u < part.units; ++u) {
      const at::Tensor master = part.parameters->master(u);
      if (master.scalar_type() != at::kFloat)
        fail("ZeroOptimizer: an optimizer of torch with states in {}: set optimizer_dtype to fp32",
             c10::toString(master.scalar_type()));
      slices[part.group].push_back(master);
    }
  optimizer_ = make(slices);
  if (optimizer_ == nullptr) fail("ZeroOptimizer: ZeroOptimizerOptions::torch_optimizer made no optimizer");
}

void TorchOptimizer::step(double scale, bool skip) {
  if (!skip) {
    // fp32 gradients are scaled in place: this is their last use.
    set_gradients([scale](const at::Tensor& gradient) { return gradient.to(at::kFloat).mul_(scale); });
    try {
      optimizer_->step();
    } catch (...) {
      set_gradients({});
      throw;
    }
    set_gradients({});
  }
  for (const Part& part : parts_) {
    for (int u = 0; u < part.units; ++u) {
      part.parameters->gradients().arrived(u).wait();
      part.parameters->gradients().release(u);
    }
    part.parameters->publish();
  }
}

void TorchOptimizer::set_gradients(const std::function<at::Tensor(const at::Tensor&)>& of) {
  for (const Part& part : parts_)
    for (int u = 0; u < part.units; ++u) {
      part.parameters->gradients().arrived(u).wait();
      part.parameters->master(u).mutable_grad() = of ? of(part.parameters->gradients().gradient(u)) : at::Tensor();
    }
}

}  // namespace partita::internal
