// Rewrites a checkpoint: into another number of files, in another precision, without optimizer states, in the newest
// version of the format. Tensors are streamed, so memory use does not grow with the checkpoint.
//
//   convert_checkpoint("runs/a/checkpoints/step-00000100", "out/step-00000100", {.ranks = 8, .states = DType::bf16});
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/checkpoint/manifest.h"

namespace partita::internal {

struct ConvertOptions {
  int ranks = 0;                // files to write; 0: as many as there are
  std::optional<DType> states;  // fp32 or bf16: of trained weights and optimizer states; empty: as they are
  bool weights_only = false;    // leave out the optimizer states
};

// The manifest to be written, with checksums of zero. Every file gets the same number of bytes of elements, up to a row
// of a matrix; a tensor with fewer rows than files is cut between any two elements. Trained weights are those with
// optimizer states, or all if there are none. Pure.
[[nodiscard]] Manifest plan_conversion(const Manifest& from, const ConvertOptions&);

// Writes the checkpoint in `from` as the new folder `to`, which appears when it is complete. Errors: those of
// read_manifest; damaged elements; a value beyond the range of bf16; `to` is not empty, or has the name of another
// step; not enough space (checked first).
void convert_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, const ConvertOptions&);

}  // namespace partita::internal
