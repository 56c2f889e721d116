// Calls back when autograd has computed the gradient of a parameter, and when a backward pass ends.
//
//   GradientHooks hooks(parameters, {.arrived = [&](size_t p, const at::Tensor& gradient) { ... },
//                                    .ended = [&] { ... }});
//   loss.backward();
//
// A gradient is taken away from the parameter, whose grad() is undefined afterwards: autograd then gives the next one
// away instead of adding to it.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace partita::internal {

class GradientHooks {
 public:
  struct Calls {
    std::function<void(size_t parameter, const at::Tensor& gradient)> arrived;
    std::function<void()> began;  // before the first gradient of a pass
    std::function<void()> ended;  // after the last gradient of a pass in which at least one arrived
  };
  // Leaf tensors that require a gradient, none of them taken already.
  GradientHooks(std::vector<at::Tensor> parameters, Calls);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Whether autograd has a hook on the tensor that takes its gradient.
  [[nodiscard]] static bool is_taken(const at::Tensor&);

 private:
  class Hook;
  void take(size_t parameter, const at::Tensor& tensor);

  std::vector<at::Tensor> parameters_;
  Calls calls_;
  int pass_ = -1;  // autograd's number of the running pass
};

}  // namespace partita::internal
