// Cuts the blocks of a model into the stages of a pipeline, so that the slowest stage is as fast as possible. Pure.
//
//   const StageCut cut = balance_stages(std::vector{0.0, 1.0, 1.0, 1.0, 1.0, 2.4}, 3);
//   // cut.first == {0, 3, 5, 6}; cut.slowest == 2.4            blocks 0 1 2 | 3 4 | 5
#pragma once
#include <span>
#include <vector>

namespace partita::internal {

struct StageCut {
  std::vector<int> first;  // [stage]: its first block; and the number of blocks at the end
  double slowest = 0;      // time of the slowest stage
};

// Exact. Every stage has at least one block. Among the best cuts, the one with the fewest blocks in the first stage,
// then in the second, and so on: earlier stages hold activations of more micro-batches. Errors: less than one stage;
// fewer blocks than stages; a time that is negative or not finite.
[[nodiscard]] StageCut balance_stages(std::span<const double> block_times, int stages);

}  // namespace partita::internal
