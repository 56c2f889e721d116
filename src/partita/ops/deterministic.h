// Whether kernels must be bitwise reproducible where that costs time: attention backward on CUDA, 13-20% slower. All
// other kernels always are.
#pragma once

namespace partita::internal {

void set_deterministic(bool);
[[nodiscard]] bool is_deterministic();  // initially false

}  // namespace partita::internal
