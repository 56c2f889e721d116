// Loading in another layout than was saved: which stored boxes provide what this rank needs, and whether the model is
// the same. Pure.
//
//   for (const Copy& c : plan_copies(stored.pieces, wanted.box))
//     copy c.count elements from element c.from of stored.pieces[c.piece] to element c.to of the wanted box
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partita/checkpoint/contents.h"
#include "partita/checkpoint/manifest.h"

namespace partita::internal {

struct Copy {
  int piece = 0;                        // in the stored tensor's pieces
  int64_t from = 0, to = 0, count = 0;  // elements; offsets from the start of the piece and of the wanted box
  bool operator==(const Copy&) const = default;
};

// The copies that fill a box of a tensor. The pieces, sorted as in StoredTensor, hold every element once.
[[nodiscard]] std::vector<Copy> plan_copies(std::span<const StoredPiece> pieces, const Box& wanted);

// Differences between the stored and the wanted tensors, by name: missing, unexpected (unless the name begins with one
// of `ignore`), of another shape, or of a dtype that cannot be converted (elements.h). Empty: none. Long lists are
// shortened, with their length.
[[nodiscard]] std::string describe_differences(std::span<const StoredTensor> stored, std::span<const TensorInfo> wanted,
                                               std::span<const std::string> ignore);

// How the stored elements become the wanted ones, for the log, a line for each pair of dtypes: "24 tensors from fp32 to
// bf16, rounded to nearest". Empty: every dtype is the wanted one.
[[nodiscard]] std::vector<std::string> describe_conversions(std::span<const StoredTensor> stored,
                                                            std::span<const TensorInfo> wanted);

// "[2, 3]"
[[nodiscard]] std::string shape_text(std::span<const int64_t> shape);

}  // namespace partita::internal
