// Draws the timeline of a pipeline with characters, for a terminal. Pure.
//
//   fmt::print("{}", timeline_text(timeline, {.unit = "s"}).text);
//
//   rank 0  F0 F1 ......B0--- F2 B1--- ...B2---         a character is the same time everywhere
//   rank 1  ...F0 B0--- F1 B1--- F2 B2--- ......         .: the rank waits
//           0                               12 s         time of the left and of the right end
#pragma once
#include <string>

#include "partita/pipeline/timeline.h"

namespace partita::internal {

struct TextOptions {
  int chunks = 1;  // stages per rank
  // Width of the drawing without the ranks, where labels that are too long for their time are cut off; 0: as many as
  // all labels need.
  int columns = 0;
  int most_columns = 0;  // of a wider drawing only the first and the last part are shown, with // between; 0: any
  std::string unit;      // of time: "s"
};

struct TimelineText {
  std::string text;
  bool whole = true;  // false: the middle was left out
};

// Labels are those of action_label; a pair is one cell with both labels.
[[nodiscard]] TimelineText timeline_text(const Timeline&, const TextOptions&);

// "rank 1 waits longest, 25.0% of the time; rank 0 14.3%, the least"
[[nodiscard]] std::string waiting_text(const Timeline&);

}  // namespace partita::internal
