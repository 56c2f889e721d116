// The contents of a checkpoint as readable text.
//
//   fmt::print("{}", checkpoint_report(read_manifest(folder), {.tensors = true}));
#pragma once
#include <string>

#include "partita/checkpoint/manifest.h"

namespace partita::internal {

struct ReportOptions {
  bool tensors = true;  // one line per tensor, after the totals of each kind ("model", "adamw.m")
};

// Step, ranks, scalars, files, and tensors with dtype, shape, bytes and number of pieces. Ends with a newline.
[[nodiscard]] std::string checkpoint_report(const Manifest&, const ReportOptions& = {});

}  // namespace partita::internal
