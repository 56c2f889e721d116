// What is in a checkpoint, as text for a person.
//
//   fmt::print("{}", checkpoint_report(read_manifest(folder), {.tensors = true}));
#pragma once
#include <string>

#include "partita/checkpoint/manifest.h"

namespace partita::internal {

struct ReportOptions {
  bool tensors = true;  // a line for each tensor, after the totals of each kind ("model", "adamw.m")
};

// Step, ranks, scalars, files, tensors with dtype, shape, bytes and in how many pieces they lie. Ends in a new line.
[[nodiscard]] std::string checkpoint_report(const Manifest&, const ReportOptions& = {});

}  // namespace partita::internal
