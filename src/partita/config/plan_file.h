// Rules of a plan of tensor parallelism in a TOML file: the table [parallel.plan], as in a configuration, whose values
// may also be tables. For train/tensor_plan_file.h.
//
//   [parallel.plan]
//   "**.q_proj" = "column"
//   "**.qkv" = {role = "column", parts = 3, quantum = 64, gather = false}
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/nn/tensor_role.h"

namespace partita::internal {

struct PlanRule {
  std::string pattern;
  TensorRole role = TensorRole::replicate;
  int64_t parts = 1, quantum = 1;
  std::optional<bool> gather = {};
  bool optional = false;
};

// In the order in which they are written; what else the file has is not read. Errors, with file and line: invalid TOML;
// no [parallel.plan]; an unknown role or key (with the nearest name), or a value of another type.
[[nodiscard]] std::vector<PlanRule> read_plan_rules(std::string_view text, std::string_view file);

}  // namespace partita::internal
