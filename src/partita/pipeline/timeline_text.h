// Draws the timeline of a pipeline with characters, for a terminal. Pure.
//
//   fmt::print("{}", timeline_text(timeline, 1));
//
//   rank 0  F0 F1 ......B0--- F2 B1--- ...B2---         a character is the same time everywhere
//   rank 1  ...F0 B0--- F1 B1--- F2 B2--- ......         .: the rank waits
//           0                                 12         time of the left and of the right end
#pragma once
#include <string>

#include "partita/pipeline/timeline.h"

namespace partita::internal {

// Labels are those of action_label; a pair is one cell with both labels. columns 0: as many as all labels need; else
// the width of the drawing without the ranks, where labels that are too long for their time are cut off.
[[nodiscard]] std::string timeline_text(const Timeline&, int chunks, int columns = 0);

}  // namespace partita::internal
