// Who holds what. ZeRO (S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
// 2019) is one mechanism with two switches, not three:
//
//   stage   shard   replica   few_weights   few_gradients
//   0       self    dp        -             -               everything on every rank
//   1       dp      self      -             -               optimizer states and master weights sharded
//   2       dp      self      -             x               and gradients
//   3       dp      self      x             x               and weights
//
// Slices are cut over `shard`; `replica` connects the ranks that hold the same slice.
#pragma once
#include "partita/comm/communicator.h"

namespace partita {

struct Zero {
  Communicator* shard;
  Communicator* replica;
  bool few_weights = false, few_gradients = false;
};

// `self` has one rank. Error: stage not 0..3.
[[nodiscard]] Zero make_zero(int stage, Communicator& self, Communicator& data);

}  // namespace partita
