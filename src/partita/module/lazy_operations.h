// Operations of torch while modules are constructed lazily (lazy_construction.h): which of them give tensors without
// memory, which are recorded, and which make such tensors real.
#pragma once
#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace partita::internal {

// Within its life, new matrices of this thread are lazy.
class LazyFactories {
 public:
  LazyFactories();
  ~LazyFactories();
  LazyFactories(const LazyFactories&) = delete;
  LazyFactories& operator=(const LazyFactories&) = delete;

 private:
  bool before_;
};

// Within the life of an operation, what it makes for itself is real, unless it is one that only makes tensors.
class InsideOfOperation {
 public:
  explicit InsideOfOperation(const c10::OperatorHandle&);
  ~InsideOfOperation();
  InsideOfOperation(const InsideOfOperation&) = delete;
  InsideOfOperation& operator=(const InsideOfOperation&) = delete;

 private:
  bool before_;
};

// Whether new matrices of this thread are lazy now.
[[nodiscard]] bool makes_lazy_tensors();

// Whether the operation, whose operands are on top of the stack, is done: its result, without memory or with one more
// write recorded, has replaced the operands. Otherwise lazy tensors among the operands are real now, where it reads or
// writes them.
bool call_lazy(const c10::OperatorHandle&, torch::jit::Stack&);

}  // namespace partita::internal
