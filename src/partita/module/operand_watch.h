// Calls back before and after each operation of torch that has a watched tensor, or a view of one, among its operands:
// in forward, in backward, and wherever else. So memory can be filled just before it is read, in any module.
//
//   OperandWatch watch({.before = [&](std::span<const int> numbers) { fill(numbers); }, .after = ...}, "is gone");
//   c10::Storage storage = watch.add(number, bytes, device);         // without memory
//   set_data(parameter, OperandWatch::view(storage, parameter, offset));
//
// Watched tensors carry a dispatch key (operand_key.h). Views inherit it and share the storage, so that what autograd
// saves is watched, too. Making a view is not reported, nor is what does not go through torch's dispatcher, such as
// data_ptr. Operations on watched tensors come from one thread at a time.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace partita::internal {

class OperandWatch {
 public:
  // Numbers of the storages among the operands, and among those that are written, ascending. before may fail, and the
  // operation with it; after is called then, too. An operation may run others, which are reported in between.
  struct Calls {
    std::function<void(std::span<const int> used)> before;
    std::function<void(std::span<const int> used, std::span<const int> written)> after;
  };
  // after_end: the error of operations on the storages when this object is gone.
  OperandWatch(Calls, std::string after_end);
  ~OperandWatch();
  OperandWatch(const OperandWatch&) = delete;
  OperandWatch& operator=(const OperandWatch&) = delete;

  // A storage of this size without memory; its owner sets that with set_memory.
  [[nodiscard]] c10::Storage add(int number, int64_t bytes, at::Device);
  static void set_memory(const c10::Storage&, void* memory);  // null: none
  // A contiguous tensor of the shape and dtype of `like`, from element `offset` of the storage.
  [[nodiscard]] static at::Tensor view(const c10::Storage&, const at::Tensor& like, int64_t offset);
  // Whether the tensor's storage is, or was, that of a watch.
  [[nodiscard]] static bool has(const at::Tensor&);

  struct Registry;  // of all watched storages: for the fallback

 private:
  Calls calls_;
  std::string after_end_;
  int64_t order_;  // among all watches
  std::vector<c10::Storage> storages_;
};

// Runs an operation, whose operands are on top of the stack, between the calls of the watches that they concern.
void call_watched(const c10::OperatorHandle&, const torch::jit::Stack&, const std::function<void()>& run);

}  // namespace partita::internal
