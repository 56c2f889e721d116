// An optimizer of torch::optim that updates this rank's slices: one whose formula is the same for every element, as of
// all but LBFGS. The slice of a unit, which has parts of several parameters, is one tensor for it.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "partita/engine/sharded_parameters.h"

namespace torch::optim {
class Optimizer;
}

namespace partita {

// Makes an optimizer for flat fp32 tensors, which are those of groups[i] for parameter group i: on the device, or in
// host memory where ZeroOptimizerOptions::offload has them.
using MakeTorchOptimizer =
    std::function<std::shared_ptr<torch::optim::Optimizer>(const std::vector<std::vector<at::Tensor>>& groups)>;

}  // namespace partita

namespace partita::internal {

class TorchOptimizer {
 public:
  struct Part {
    ShardedParameters* parameters;  // with master weights in fp32; must outlive the optimizer
    int units;
    size_t group;
  };
  TorchOptimizer(const MakeTorchOptimizer&, std::vector<Part>, size_t groups);

  // From the finished gradients, times `scale`; skip: none. Publishes the weights.
  void step(double scale, bool skip);

 private:
  // Empty: takes the gradients away.
  void set_gradients(const std::function<at::Tensor(const at::Tensor& gradient)>& of);

  std::vector<Part> parts_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace partita::internal
