// Who holds what, as numbers. ZeRO (S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion
// parameter models", 2019) is one mechanism with two switches, not three:
//
//   stage   ranks   replicas   weights   gradients
//   0       1       all        -         -           everything on every rank
//   1       all     1          -         -           optimizer states and master weights sharded
//   2       all     1          -         x           and gradients
//   3       all     1          x         x           and weights
#pragma once

namespace partita {

struct Sharding {
  int ranks = 1;           // over which a unit is cut, an equal slice per rank
  int replicas = 1;        // ranks that hold the same slice
  bool weights = false;    // full weights exist only around their use
  bool gradients = false;  // full gradients exist only until they are reduced
};

// Error: stage not 0 to 3.
[[nodiscard]] Sharding zero_sharding(int stage, int data_parallel_ranks);

}  // namespace partita
