// How training state is distributed, as numbers. ZeRO (S. Rajbhandari et al., "ZeRO: memory optimizations toward
// training trillion parameter models", 2019) is one mechanism with two switches, not three:
//
//   stage   ranks   replicas   weights   gradients
//   0       1       all        -         -           nothing sharded
//   1       all     1          -         -           optimizer states and master weights sharded
//   2       all     1          -         x           gradients as well
//   3       all     1          x         x           weights as well
#pragma once

namespace partita {

struct Sharding {
  int ranks = 1;           // ranks that each hold an equal slice of a unit
  int replicas = 1;        // ranks that hold the same slice
  bool weights = false;    // full weights exist only around their use
  bool gradients = false;  // full gradients exist only until they are reduced
};

// Error: stage not 0 to 3.
[[nodiscard]] Sharding zero_sharding(int stage, int data_parallel_ranks);

}  // namespace partita
