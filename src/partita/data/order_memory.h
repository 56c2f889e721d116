// The memory that an order of samples takes, said before it is made.
//
//   announce_order({.name = "train", .samples = 40'000'000, .epochs = 769'231, .bytes = 1'400'000'000});
#pragma once
#include <cstdint>
#include <string>

#include "partita/base/free_memory.h"

namespace partita::internal {

struct OrderSize {
  std::string name;  // of the split
  int64_t samples = 0, epochs = 0;
  int64_t bytes = 0;  // while it is made
};

// What is said where it does not fit into what is free; empty: it fits. Pure.
[[nodiscard]] std::string order_problem(const OrderSize&, const FreeMemory&);

// Error: order_problem, now. Says what is made where that takes a while. Called by the process that makes it, not by
// those that wait for its file: they would find the memory taken.
void announce_order(const OrderSize&);

}  // namespace partita::internal
