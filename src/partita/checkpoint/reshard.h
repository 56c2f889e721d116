// Loading in another layout than was saved: which stored boxes give what this rank wants, and whether it is the same
// model at all. Pure.
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
  int64_t from = 0, to = 0, count = 0;  // elements, from the first of the piece to the first of the wanted box
  bool operator==(const Copy&) const = default;
};

// What fills a box of a tensor whose pieces, sorted as in StoredTensor, hold every element once.
[[nodiscard]] std::vector<Copy> plan_copies(std::span<const StoredPiece> pieces, const Box& wanted);

// How the stored tensors differ from the wanted ones, by name: missing, extra (unless the name begins with one of
// `ignore`), of another shape or dtype. Empty: they do not. Long lists are cut, with their number.
[[nodiscard]] std::string describe_differences(std::span<const StoredTensor> stored, std::span<const TensorInfo> wanted,
                                               std::span<const std::string> ignore);

// "[2, 3]"
[[nodiscard]] std::string shape_text(std::span<const int64_t> shape);

}  // namespace partita::internal
