#include "partita/module/lazy_operations.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/strides.h>

#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/module/lazy_storage.h"
#include "partita/module/operand_key.h"

namespace partita::internal {
namespace {

// Smaller ones are worth no record. Vectors are small next to matrices, and torch::tensor writes them by their address.
constexpr int64_t kLeastElements = 1024;
constexpr size_t kLeastDimensions = 2;
// Operations that a replay may run: more are not recorded, so that loops of writes do not grow without end.
constexpr int64_t kMostCost = 100;

thread_local bool makes_lazy = false;

// Records and replays of all threads, one after the other. Replays read other records.
std::recursive_mutex& records() {
  static auto* mutex = new std::recursive_mutex;  // never destroyed: tensors may outlive static objects
  return *mutex;
}

// They make tensors by `empty` and fill them by operations in place, and read no operand otherwise.
bool only_makes(std::string_view name) {
  static const std::set<std::string_view> names{"aten::empty",
                                                "aten::empty_strided",
                                                "aten::zeros",
                                                "aten::ones",
                                                "aten::full",
                                                "aten::rand",
                                                "aten::randn",
                                                "aten::empty_like",
                                                "aten::zeros_like",
                                                "aten::ones_like",
                                                "aten::full_like",
                                                "aten::rand_like",
                                                "aten::randn_like",
                                                "aten::new_empty",
                                                "aten::new_zeros",
                                                "aten::new_ones",
                                                "aten::new_full",
                                                "aten::clone",
                                                "aten::to",
                                                "aten::_to_copy",
                                                "aten::_has_compatible_shallow_copy_type",
                                                "aten::new_empty_strided"};
  return names.contains(name);
}

// They draw from a generator among their operands, and do not read what they write.
bool draws(std::string_view name) {
  static const std::set<std::string_view> names{"aten::uniform_",    "aten::normal_",   "aten::random_",
                                                "aten::bernoulli_",  "aten::cauchy_",   "aten::exponential_",
                                                "aten::log_normal_", "aten::geometric_"};
  return names.contains(name);
}

bool overwrites(std::string_view name) {
  return draws(name) || name == "aten::fill_" || name == "aten::zero_" || name == "aten::copy_";
}

// The result of an `empty` that is to be lazy.
std::optional<at::Tensor> lazy_result(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> operands) {
  const bool strided = schema.name() == "aten::empty_strided";
  if (!strided && (schema.name() != "aten::empty" || schema.overload_name() != "memory_format")) return {};
  const size_t options = strided ? 2 : 1;
  if (!operands[0].isIntList() || (strided && !operands[1].isIntList())) return {};
  const auto or_none = [&](size_t i, auto expected) {
    return operands[options + i].isNone() || operands[options + i] == c10::IValue(expected);
  };
  const at::ScalarType dtype =
      operands[options].isNone() ? c10::get_default_dtype_as_scalartype() : operands[options].toScalarType();
  const bool on_host = operands[options + 2].isNone() || operands[options + 2].toDevice().is_cpu();
  if (!at::isFloatingType(dtype) || !or_none(1, at::kStrided) || !on_host || !or_none(3, false)) return {};
  if (!strided && !or_none(4, at::MemoryFormat::Contiguous)) return {};
  const std::vector<int64_t> sizes = operands[0].toIntVector();
  const int64_t count = c10::multiply_integers(sizes);
  if (sizes.size() < kLeastDimensions || count < kLeastElements) return {};
  if (strided) return make_lazy(sizes, operands[1].toIntVector(), dtype);
  return make_lazy(sizes, c10::contiguous_strides(sizes), dtype);
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Those whose values the operation reads or writes.
std::vector<at::Tensor> lazy_operands(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> operands) {
  std::vector<at::Tensor> found;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (schema.arguments()[i].alias_info() != nullptr && !is_written(schema.arguments()[i])) continue;  // makes a view
    visit_tensors(operands[i], [&](const at::Tensor& tensor) {
      if (is_lazy(tensor)) found.push_back(tensor);
    });
  }
  return found;
}

bool autograd_sees(const at::Tensor& tensor) {
  return at::GradMode::is_enabled() && tensor.requires_grad() &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality);
}

// Whether it writes its first operand, which is lazy, and nothing else, by a kernel that a replay can call.
bool writes_first(const c10::OperatorHandle& operation, at::ArrayRef<c10::IValue> operands) {
  const std::vector<c10::Argument>& arguments = operation.schema().arguments();
  if (!operation.schema().name().ends_with('_') || operation.schema().returns().size() != 1) return false;
  if (operation.hasTag(at::Tag::inplace_view) ||
      operation.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
    return false;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (is_written(arguments[i]) != (i == 0)) return false;
  return operands[0].isTensor() && is_lazy(operands[0].toTensor()) && !operands[0].toTensor().is_neg();
}

// The record of an operation that writes its first operand. None: it has operands that are not worth a copy.
std::optional<RecordedWrite> record_for(const c10::OperatorHandle& operation, at::ArrayRef<c10::IValue> operands) {
  const at::Tensor& written = operands[0].toTensor();
  RecordedWrite write{
      .operation = operation, .written = StorageView::of(written), .overwrites = overwrites(operation.schema().name())};
  if (autograd_sees(written)) return {};
  for (size_t i = 1; i < operands.size(); ++i) {
    write.operands.push_back(operands[i]);
    if (operands[i].isList() && !operands[i].isIntList() && !operands[i].isDoubleList()) return {};
    if (!operands[i].isTensor() || !operands[i].toTensor().defined()) continue;
    const at::Tensor& tensor = operands[i].toTensor();
    if (autograd_sees(tensor) || !tensor.device().is_cpu()) return {};
    if (!is_lazy(tensor)) {
      if (tensor.numel() >= kLeastElements) return {};
      const at::Tensor copy = tensor.detach().clone();
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
      write.operands.back() = copy;
    } else {
      if (tensor.storage().unsafeGetStorageImpl() == written.storage().unsafeGetStorageImpl() || tensor.is_neg())
        return {};
      write.operands.back() = c10::IValue();
      write.unmade.push_back({.operand = i,
                              .values = recorded(tensor),
                              .bytes = static_cast<int64_t>(tensor.storage().nbytes()),
                              .view = StorageView::of(tensor)});
    }
  }
  int64_t total = 1 + cost(recorded(written));
  for (const RecordedWrite::Unmade& u : write.unmade) total += cost(u.values);
  return total <= kMostCost ? std::optional(std::move(write)) : std::nullopt;
}

// Whether torch accepts the operands: runs the operation on tensors of device meta, which computes shapes alone.
bool is_valid(const c10::OperatorHandle& operation, at::ArrayRef<c10::IValue> operands) {
  if (!operation.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return false;
  torch::jit::Stack stack;
  for (const c10::IValue& operand : operands) {
    const bool small = operand.isTensor() && (!operand.toTensor().defined() || operand.toTensor().dim() == 0);
    if (!operand.isTensor() || small) {
      stack.push_back(operand);
      continue;
    }
    const at::Tensor& tensor = operand.toTensor();
    stack.push_back(at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta)));
  }
  try {
    operation.callBoxed(stack);
  } catch (const c10::Error&) {
    return false;  // it is run for real, and gives its own error
  }
  return true;
}

// Keeps the generator's state for the replay, and takes the numbers from it that the operation takes: by running it on
// memory that is dropped, since their count depends on shape, strides and kernels.
bool draw(const c10::OperatorHandle& operation, at::ArrayRef<c10::IValue> operands, RecordedWrite& write) {
  const std::vector<c10::Argument>& arguments = operation.schema().arguments();
  size_t place = 1;
  while (place < arguments.size() && arguments[place].name() != "generator") ++place;
  if (place == arguments.size() || !write.unmade.empty()) return false;
  at::Generator generator =
      operands[place].isNone() ? at::detail::getDefaultCPUGenerator() : operands[place].toGenerator();
  {
    const std::lock_guard lock(generator.mutex());
    write.operands[place - 1] = generator.clone();
  }
  StorageView dropped = write.written;
  dropped.offset = 0;
  torch::jit::Stack stack{dropped.in(temporary_storage(static_cast<int64_t>(
      at::detail::computeStorageNbytes(dropped.sizes, dropped.strides, c10::elementSize(dropped.dtype)))))};
  stack.insert(stack.end(), operands.begin() + 1, operands.end());
  operation.callBoxed(stack);
  return true;
}

// Whether the operation is recorded.
bool record_write(const c10::OperatorHandle& operation, at::ArrayRef<c10::IValue> operands) {
  if (!writes_first(operation, operands)) return false;
  std::optional<RecordedWrite> write = record_for(operation, operands);
  if (!write) return false;
  const at::NoGradGuard none;
  const c10::impl::ExcludeDispatchKeyGuard plain(kOperandKey);
  const bool random = operation.hasTag(at::Tag::nondeterministic_seeded);
  if (random != draws(operation.schema().name())) return false;
  if (random ? !draw(operation, operands, *write) : !is_valid(operation, operands)) return false;
  const at::Tensor& written = operands[0].toTensor();
  record(written, *std::move(write));
  if (!written.is_inference()) written.unsafeGetTensorImpl()->bump_version();
  return true;
}

}  // namespace

LazyFactories::LazyFactories() : before_(std::exchange(makes_lazy, true)) {}
LazyFactories::~LazyFactories() { makes_lazy = before_; }

InsideOfOperation::InsideOfOperation(const c10::OperatorHandle& operation) : before_(makes_lazy) {
  makes_lazy = makes_lazy && only_makes(operation.schema().name());
}
InsideOfOperation::~InsideOfOperation() { makes_lazy = before_; }

bool makes_lazy_tensors() { return makes_lazy; }

bool call_lazy(const c10::OperatorHandle& operation, torch::jit::Stack& stack) {
  if (!makes_lazy && !any_lazy()) return false;
  const c10::FunctionSchema& schema = operation.schema();
  const at::ArrayRef<c10::IValue> operands = torch::jit::last(stack, schema.arguments().size());
  at::Tensor result;
  if (makes_lazy)
    if (std::optional<at::Tensor> made = lazy_result(schema, operands)) result = *std::move(made);
  if (!result.defined()) {
    if (only_makes(schema.name())) return false;
    const std::lock_guard lock(records());
    const std::vector<at::Tensor> lazy = lazy_operands(schema, operands);
    if (lazy.empty()) return false;
    if (!record_write(operation, operands)) {
      for (const at::Tensor& tensor : lazy) make_real(tensor);
      return false;
    }
    result = operands[0].toTensor();
  }
  torch::jit::drop(stack, schema.arguments().size());
  torch::jit::push(stack, std::move(result));
  return true;
}

}  // namespace partita::internal
