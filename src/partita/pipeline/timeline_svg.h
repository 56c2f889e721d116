// Draws the timeline of a pipeline as an SVG image. Pure.
//
//   write_file(path, timeline_svg(timeline, shape.chunks));
//
// A row per rank; a rectangle per action, with the number of its micro-batch where there is room. The color says what
// it is, lighter ones are of later chunks. Pairs are above each other. The image needs no other file and has no
// background; its text is readable on light and on dark pages.
#pragma once
#include <string>

#include "partita/pipeline/timeline.h"

namespace partita::internal {

struct SvgOptions {
  // Width of the drawn time in pixels. 0: so that most numbers of micro-batches fit, within 600 to 3000.
  int width = 0;
  std::string title;  // above the drawing; any text
};

[[nodiscard]] std::string timeline_svg(const Timeline&, int chunks, const SvgOptions& = {});
// Images of timeline_svg above each other, as one.
[[nodiscard]] std::string stacked_svg(const std::vector<std::string>& images);

}  // namespace partita::internal
