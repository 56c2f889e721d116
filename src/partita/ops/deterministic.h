// Whether kernels must give the same bits in every run where that costs time: the backward of attention on CUDA, 13-20%
// of it. All others always do.
#pragma once

namespace partita::internal {

void set_deterministic(bool);
[[nodiscard]] bool is_deterministic();  // false at the start

}  // namespace partita::internal
