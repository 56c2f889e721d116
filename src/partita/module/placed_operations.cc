#include "partita/module/placed_operations.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "partita/base/error.h"
#include "partita/module/linear_operands.h"
#include "partita/module/operand_key.h"
#include "partita/module/tensor_functions.h"
#include "partita/module/tensor_placement.h"

namespace partita::internal {
namespace {

thread_local bool own_part = false;

// What may be done with a part when autograd does not record it: copies, and what looks at values. Anything else could
// take the part for the whole.
bool is_harmless(const c10::FunctionSchema& schema) {
  static const std::set<std::string_view> names{"aten::clone",
                                                "aten::copy_",
                                                "aten::_to_copy",
                                                "aten::contiguous",
                                                "aten::cat",
                                                "aten::empty_like",
                                                "aten::zeros_like",
                                                "aten::ones_like",
                                                "aten::norm",
                                                "aten::linalg_vector_norm",
                                                "aten::_foreach_norm",
                                                "aten::sum",
                                                "aten::mean",
                                                "aten::abs",
                                                "aten::square",
                                                "aten::max",
                                                "aten::min",
                                                "aten::aminmax",
                                                "aten::isfinite",
                                                "aten::isnan",
                                                "aten::equal",
                                                "aten::allclose",
                                                "aten::_local_scalar_dense",
                                                "aten::lerp_",
                                                "aten::add_",
                                                "aten::sub_",
                                                "aten::addcmul_",
                                                "aten::_foreach_add_",
                                                "aten::_foreach_lerp_",
                                                "aten::_has_compatible_shallow_copy_type"};  // the last one of set_data
  return names.contains(schema.name());
}

// The first operand that is divided, of those that are read for their values: not of views that are made of it, and
// not what is written.
struct Divided {
  const TensorPlacement* placement = nullptr;  // null: none
  bool recorded = false;                       // autograd records the operation
};

Divided divided_operand(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> operands) {
  Divided found;
  const auto look = [&](const at::Tensor& tensor) {
    if (found.placement != nullptr || !has_operand_key(tensor)) return;
    const TensorPlacement* placement = placement_of(tensor);
    if (placement != nullptr && placement->divided())
      found = {placement, at::GradMode::is_enabled() && tensor.requires_grad()};
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    if (schema.arguments()[i].alias_info() != nullptr) continue;
    visit_tensors(operands[i], look);
  }
  return found;
}

// Undefined: another operation.
at::Tensor call_linear(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> operands) {
  const std::optional<LinearOperands> linear = linear_operands(schema, operands);
  if (!linear) return {};
  const TensorPlacement* placement = placement_of(linear->weight);
  if (placement == nullptr || !placement->divided() ||
      linear->weight.sizes() != at::IntArrayRef(placement->spec.local_shape()))
    return {};
  return placed_linear(linear->x, linear->weight, linear->bias, *placement);
}

// Adds a divided bias to outputs that are divided like it, or that the placement has gathered before.
bool call_add(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> operands, at::Tensor& result) {
  const std::string_view name = schema.name();
  if ((name != "aten::add_" && name != "aten::add") || schema.overload_name() != "Tensor") return false;
  const at::Tensor y = operands[0].toTensor(), bias = operands[1].toTensor();
  const TensorPlacement* placement = placement_of(bias);
  if (placement == nullptr || placement->spec.shape.size() != 1 || bias.dim() != 1) return false;
  const OnOwnPart own;
  const at::Tensor added = placement->gather ? gather_outputs(bias, *placement) : bias;
  result = name == "aten::add_" ? y.add_(added, operands[2].toScalar()) : y.add(added, operands[2].toScalar());
  return true;
}

at::Tensor call_embedding(const TensorPlacement& weight, at::ArrayRef<c10::IValue> operands) {
  if (weight.role != TensorRole::vocabulary)
    fail("{} is divided by a rule of role {}, and the table of an embedding: expected the role vocabulary",
         weight.spec.name, weight.role == TensorRole::row ? "row" : "column");
  if (operands[3].toBool() || operands[4].toBool())
    fail("{}: an embedding that is divided over ranks, with {}, which is not supported", weight.spec.name,
         operands[4].toBool() ? "sparse gradients" : "scale_grad_by_freq");
  return placed_embedding(operands[0].toTensor(), operands[1].toTensor(), operands[2].toInt(), weight);
}

}  // namespace

OnOwnPart::OnOwnPart() : before_(std::exchange(own_part, true)) {}
OnOwnPart::~OnOwnPart() { own_part = before_; }

PlacedCall call_placed(const c10::OperatorHandle& operation, torch::jit::Stack& stack) {
  if (own_part || !any_placed()) return PlacedCall::unknown;
  const c10::FunctionSchema& schema = operation.schema();
  const at::ArrayRef<c10::IValue> operands = torch::jit::last(stack, schema.arguments().size());
  const std::string_view name = schema.name();
  if (name == "aten::embedding_renorm_")
    if (const TensorPlacement* table = placement_of(operands[0].toTensor()); table != nullptr && table->divided())
      fail("{}: an embedding with max_norm that is divided over ranks, which is not supported", table->spec.name);
  const auto [divided, recorded] = divided_operand(schema, operands);
  if (divided == nullptr) return PlacedCall::unknown;
  at::Tensor result;
  if (name == "aten::embedding") {
    result = call_embedding(*divided, operands);
  } else if (result = call_linear(schema, operands); result.defined()) {
  } else if (call_add(schema, operands, result)) {
  } else {
    if ((recorded && name != "aten::_has_compatible_shallow_copy_type") || !is_harmless(schema))
      fail(
          "{} is divided over tensor-parallel ranks, and used by {}: expected linear or embedding; otherwise give its "
          "module the role replicate, and move a module before it is divided",
          divided->spec.name, name);
    return PlacedCall::of_part;
  }
  torch::jit::drop(stack, schema.arguments().size());
  torch::jit::push(stack, std::move(result));
  return PlacedCall::computed;
}

}  // namespace partita::internal
