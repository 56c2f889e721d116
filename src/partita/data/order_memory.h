// Reports the memory needed to build a sample order, before building it.
//
//   announce_order({.name = "train", .samples = 40'000'000, .epochs = 769'231, .bytes = 1'400'000'000});
#pragma once
#include <cstdint>
#include <string>

#include "partita/base/free_memory.h"

namespace partita::internal {

struct OrderSize {
  std::string name;  // name of the split
  int64_t samples = 0, epochs = 0;
  int64_t bytes = 0;  // peak while building
};

// The error message if it does not fit into free memory; empty: it fits. Pure.
[[nodiscard]] std::string order_problem(const OrderSize&, const FreeMemory&);

// Error: order_problem with the memory free now. Logs a message if building takes a while. Only the building process
// may call it: those that wait for its file would find the memory taken.
void announce_order(const OrderSize&);

}  // namespace partita::internal
