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

void TorchOptimizer::step(double scale) {
  for (const Part& part : parts_)
    for (int u = 0; u < part.units; ++u)
      part.parameters->master(u).mutable_grad() = part.parameters->gradients().gradient(u).to(at::kFloat).mul(scale);
  optimizer_->step();
  for (const Part& part : parts_) {
    for (int u = 0; u < part.units; ++u) part.parameters->master(u).mutable_grad().reset();
    part.parameters->publish();
  }
}

}  // namespace partita::internal
