// Operations of torch on parameters that are divided over tensor-parallel ranks (tensor_placement.h): what a module
// calls as on one process, linear and embedding, is computed by all ranks of the group.
#pragma once
#include <ATen/core/stack.h>

#include <cstdint>

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

enum class PlacedCall : uint8_t {
  unknown,   // the operation has nothing to do with divided parameters
  computed,  // it was one of these: its result has replaced its operands
  of_part,   // it looks at this rank's part, and may be computed as it is, within OnOwnPart
};
// Of an operation whose operands are on top of the stack. Error: it would compute with this rank's part as if that were
// the whole.
[[nodiscard]] PlacedCall call_placed(const c10::OperatorHandle&, torch::jit::Stack&);

}  // namespace partita::internal
