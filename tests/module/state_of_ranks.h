// States of a ZeroOptimizer, which rank 0 receives, for tests that load them.
#pragma once
#include <fmt/ranges.h>

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "partita/device/stream.h"
#include "tests/module/zero_case.h"

namespace partita::internal::test {

// The state of rank 0 on all ranks, as if each had read it from a file.
inline StateDict on_all_ranks(const StateDict& of_rank_0) {
  CpuStream stream;
  std::string keys;
  for (const auto& [key, tensor] : of_rank_0) keys += key + "\n";
  StateDict all = of_rank_0;
  const std::vector<std::string> of_ranks = gather_strings(mesh().data(), keys);
  std::istringstream lines(of_ranks[0]);
  for (std::string key; std::getline(lines, key);) {
    const at::Tensor value = all.contains(key) ? all[key] : at::Tensor();
    std::string shape = value.defined() ? fmt::format("{}", fmt::join(value.sizes(), " ")) : "";
    std::istringstream sizes(gather_strings(mesh().data(), shape)[0]);
    const std::vector<int64_t> extents(std::istream_iterator<int64_t>(sizes), {});
    const auto type = key.starts_with("zero_optimizer/") ? at::kLong : at::kFloat;
    const at::Tensor received = value.defined() ? value : at::zeros(extents, at::TensorOptions(type));
    if (received.numel() > 0) mesh().data().broadcast(received, 0, stream).wait();
    all[key] = received;
  }
  return all;
}

}  // namespace partita::internal::test
