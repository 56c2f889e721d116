#include "partita/module/gradient_hooks.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace partita::internal {
namespace {

using torch::autograd::impl::post_acc_grad_hooks;
using torch::autograd::impl::set_post_acc_grad_hooks;

}  // namespace

class GradientHooks::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientHooks& owner, size_t parameter) : owner_(owner), parameter_(parameter) {}
  void operator()(const at::Tensor& tensor) override { owner_.take(parameter_, tensor); }

 private:
  GradientHooks& owner_;
  size_t parameter_;
};

GradientHooks::GradientHooks(std::vector<at::Tensor> parameters, Calls calls)
    : parameters_(std::move(parameters)), calls_(std::move(calls)) {
  for (size_t p = 0; p < parameters_.size(); ++p)
    set_post_acc_grad_hooks(parameters_[p], std::make_unique<Hook>(*this, p));
}

GradientHooks::~GradientHooks() {
  for (const at::Tensor& parameter : parameters_) set_post_acc_grad_hooks(parameter, nullptr);
}

bool GradientHooks::is_taken(const at::Tensor& tensor) {
  return tensor.requires_grad() && post_acc_grad_hooks(tensor) != nullptr;
}

void GradientHooks::take(size_t parameter, const at::Tensor& tensor) {
  const at::NoGradGuard none;  // the gradient of a pass with create_graph has a graph of its own
  if (const int pass = torch::autograd::get_current_graph_task_id(); pass != pass_) {
    calls_.began();
    pass_ = pass;
    torch::autograd::Engine::get_default_engine().queue_callback([this] { calls_.ended(); });
  }
  const at::Tensor gradient = tensor.grad().detach();
  tensor.mutable_grad().reset();
  calls_.arrived(parameter, gradient);
}

}  // namespace partita::internal
