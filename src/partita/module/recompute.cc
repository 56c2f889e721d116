#include "partita/module/recompute.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <iterator>
#include <optional>

namespace partita {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The states of the random number generators that an operation on the device may use.
class RandomState {
 public:
  explicit RandomState(at::Device device) : device_(device) {
    host_ = generator(at::kCPU).get_state();
    if (!device.is_cpu()) on_device_ = generator(device).get_state();
  }
  void restore() const {
    generator(at::kCPU).set_state(host_);
    if (!device_.is_cpu()) generator(device_).set_state(on_device_);
  }

 private:
  static at::Generator generator(at::Device device) { return at::globalContext().defaultGenerator(device); }
  at::Device device_;
  at::Tensor host_, on_device_;
};

struct Call : torch::CustomClassHolder {
  Call(ForwardOfTensors f, at::Device device) : forward(std::move(f)), random(device) {}
  ForwardOfTensors forward;
  RandomState random;
};

// Its operands are the call, the inputs, and the parameters, so that autograd asks for their gradients here.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<Call>& call, int64_t inputs,
                               at::TensorList operands) {
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["inputs"] = inputs;
    context->save_for_backward(operands.vec());
    return call->forward(operands.slice(0, static_cast<size_t>(inputs)).vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto call = c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    const auto inputs = static_cast<size_t>(context->saved_data["inputs"].toInt());
    variable_list operands = context->get_saved_variables();
    for (size_t i = 0; i < inputs; ++i)
      if (operands[i].defined()) operands[i] = operands[i].detach().requires_grad_(operands[i].requires_grad());
    const variable_list results =
        again(*call, {operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(inputs)});
    variable_list roots, of_roots, leaves;
    for (size_t r = 0; r < results.size(); ++r)
      if (results[r].requires_grad() && gradients[r].defined()) {
        roots.push_back(results[r]);
        of_roots.push_back(gradients[r]);
      }
    for (const at::Tensor& operand : operands)
      if (operand.defined() && operand.requires_grad()) leaves.push_back(operand);
    variable_list found;
    if (!roots.empty() && !leaves.empty())
      found = torch::autograd::grad(roots, leaves, of_roots, /*retain_graph=*/false, /*create_graph=*/false,
                                    /*allow_unused=*/true);
    variable_list all(2);  // of the call and the number of inputs
    size_t next = 0;
    for (const at::Tensor& operand : operands)
      all.push_back(!found.empty() && operand.defined() && operand.requires_grad() ? found[next++] : at::Tensor());
    return all;
  }

 private:
  static variable_list again(const Call& call, const variable_list& inputs) {
    const RandomState now(inputs.empty() ? at::Device(at::kCPU) : inputs.front().device());
    call.random.restore();
    const at::AutoGradMode records(true);
    variable_list results = call.forward(inputs);
    now.restore();
    return results;
  }
};

}  // namespace

std::vector<at::Tensor> recompute(const std::vector<at::Tensor>& parameters, ForwardOfTensors forward,
                                  const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return forward(inputs);
  const at::Device device = inputs.empty() ? at::Device(at::kCPU) : inputs.front().device();
  variable_list operands = inputs;
  for (const at::Tensor& parameter : parameters)
    if (parameter.requires_grad()) operands.push_back(parameter);
  return Recomputed::apply(c10::make_intrusive<Call>(std::move(forward), device), std::ssize(inputs),
                           at::TensorList(operands));
}

}  // namespace partita
