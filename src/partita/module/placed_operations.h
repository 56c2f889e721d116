// Operations of torch on parameters that are divided over tensor-parallel ranks (tensor_placement.h): what a module
// calls as on one process, linear and embedding, is computed by all ranks of the group.
#pragma once
#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace partita::internal {

// Within its life, operations of this thread on divided parameters are those of torch, on this rank's part.
class OnOwnPart {
 public:
  OnOwnPart();
  ~OnOwnPart();
  OnOwnPart(const OnOwnPart&) = delete;
  OnOwnPart& operator=(const OnOwnPart&) = delete;

 private:
  bool before_;
};

// Whether the operation, whose operands are on top of the stack, was one of these: then its result has replaced them.
// Error: another operation that would compute with this rank's part as if it were the whole.
bool call_placed(const c10::OperatorHandle&, torch::jit::Stack&);

}  // namespace partita::internal
