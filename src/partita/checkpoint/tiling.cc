#include "partita/checkpoint/tiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "partita/checkpoint/damage.h"

namespace partita::internal {
namespace {

int64_t row_end(const Box& box) { return box.row + box.rows; }
int64_t column_end(const Box& box) { return box.column + box.columns; }

// The boxes that intersect the current row, keyed by first column. They never overlap, so they cover the row exactly if
// their widths add up to its width.
class CrossedBoxes {
 public:
  explicit CrossedBoxes(const TensorInfo& tensor) : tensor_(tensor) {}

  void add(const Box& box) {
    const auto next = boxes_.lower_bound(box.column);
    if (next != boxes_.end() && next->first < column_end(box)) stored_twice(box, *next->second);
    if (next != boxes_.begin() && column_end(*std::prev(next)->second) > box.column)
      stored_twice(box, *std::prev(next)->second);
    boxes_.emplace_hint(next, box.column, &box);
    width_ += box.columns;
  }
  void remove(const Box& box) {
    boxes_.erase(box.column);
    width_ -= box.columns;
  }
  // `band`: rows that all intersect the same boxes.
  void check_complete(const Box& band) const {
    if (width_ == band.columns) return;
    int64_t column = 0;
    for (const auto& [begin, box] : boxes_) {
      if (begin > column) break;
      column = column_end(*box);
    }
    const auto next = boxes_.lower_bound(column);
    Box gap = band;
    gap.column = column;
    gap.columns = (next == boxes_.end() ? band.columns : next->first) - column;
    damaged("{} of '{}' are stored by no rank", box_text(tensor_, gap), tensor_.name);
  }

 private:
  [[noreturn]] void stored_twice(const Box& a, const Box& b) const {
    damaged("{} of '{}' are stored twice", box_text(tensor_, overlap(a, b).value()), tensor_.name);
  }

  const TensorInfo& tensor_;
  std::map<int64_t, const Box*> boxes_;
  int64_t width_ = 0;
};

}  // namespace

void check_tiling(const TensorInfo& tensor, std::vector<Box> boxes) {
  const Box whole = whole_box(tensor.shape);
  for (const Box& box : boxes)
    if (box.rows <= 0 || box.columns <= 0 || !contains(whole, box))
      damaged("{} of '{}', whose shape is [{}]", box_text(tensor, box), tensor.name, fmt::join(tensor.shape, ", "));
  std::ranges::sort(boxes, {}, &Box::row);
  std::vector<const Box*> ends;
  for (const Box& box : boxes) ends.push_back(&box);
  std::ranges::sort(ends, {}, [](const Box* box) { return row_end(*box); });

  CrossedBoxes crossed(tensor);
  auto begins = boxes.begin();
  auto end = ends.begin();
  for (Box band = whole; band.row < whole.rows; band.row = row_end(band)) {
    for (; end != ends.end() && row_end(**end) == band.row; ++end) crossed.remove(**end);
    for (; begins != boxes.end() && begins->row == band.row; ++begins) crossed.add(*begins);
    int64_t until = whole.rows;
    if (begins != boxes.end()) until = std::min(until, begins->row);
    if (end != ends.end()) until = std::min(until, row_end(**end));
    band.rows = until - band.row;
    crossed.check_complete(band);
  }
}

std::string box_text(const TensorInfo& tensor, const Box& box) {
  const std::string columns = fmt::format("[{}, {})", box.column, column_end(box));
  if (tensor.shape.size() < 2) return fmt::format("elements {}", columns);
  return fmt::format("rows [{}, {}), columns {}", box.row, row_end(box), columns);
}

}  // namespace partita::internal
