// Plans of tensor parallelism for torch modules (module/tensor_plan.h) in TOML, as parallel.plan is for
// `partita train`.
//
//   parallelize(named(module), mesh, read_tensor_plan("plan.toml"));
//
// with a file such as
//
//     [parallel.plan]
//     "**wte" = "vocabulary"
//     "**attn.c_attn" = {role = "column", parts = 3, quantum = 64}
//     "**attn.c_proj" = {role = "row", quantum = 64}
#pragma once
#include <filesystem>

#include "partita/module/tensor_plan.h"

namespace partita {

// The rules of the file's table [parallel.plan], in the order in which they are written: the role, or a table with the
// members of TensorRule. What else the file has is not read. Errors: no such file or table; with the line: invalid
// TOML, an unknown role or key (with the nearest name), a value of another type.
[[nodiscard]] TensorPlan read_tensor_plan(const std::filesystem::path& file);

}  // namespace partita
