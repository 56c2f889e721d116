// Random boxes and tilings, for sharding tests.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "partita/nn/box.h"

namespace partita::internal::test {

inline int64_t random_up_to(std::mt19937& random, int64_t most) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
}

// Of at least one element, inside `whole`, which has some.
inline Box random_box(std::mt19937& random, const Box& whole) {
  Box box = whole;
  box.row += random_up_to(random, whole.rows - 1);
  box.column += random_up_to(random, whole.columns - 1);
  box.rows = 1 + random_up_to(random, whole.row + whole.rows - box.row - 1);
  box.columns = 1 + random_up_to(random, whole.column + whole.columns - box.column - 1);
  return box;
}

// How a matrix is cut over ranks: by rows or columns, in flat slices as ZeRO does, or one in the other.
enum class Cut : uint8_t { whole, rows, columns, runs, rows_then_runs, columns_then_runs, mixed };
inline constexpr Cut kCuts[] = {
    Cut::whole, Cut::rows, Cut::columns, Cut::runs, Cut::rows_then_runs, Cut::columns_then_runs, Cut::mixed};

// Boxes that hold each element of `whole` once, at random places, in no order; some are empty.
inline std::vector<Box> random_tiling(std::mt19937& random, const Box& whole, Cut cut) {
  const auto cuts_of = [&](int64_t count) {
    std::vector<int64_t> cuts = {0, count};
    for (uint32_t i = random() % 4; i > 0; --i) cuts.push_back(random_up_to(random, count));
    std::ranges::sort(cuts);
    return cuts;
  };
  std::vector<Box> parts;
  const auto split = [&](const Box& box, Cut how) {
    if (how == Cut::whole) return parts.push_back(box);
    const std::vector<int64_t> cuts = cuts_of(how == Cut::rows      ? box.rows
                                              : how == Cut::columns ? box.columns
                                                                    : box.count());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const int64_t begin = cuts[i], count = cuts[i + 1] - cuts[i];
      if (how == Cut::rows)
        parts.push_back({box.row + begin, count, box.column, box.columns});
      else if (how == Cut::columns)
        parts.push_back({box.row, box.rows, box.column + begin, count});
      else
        std::ranges::copy(boxes_of_run(box, begin, count), std::back_inserter(parts));
    }
  };
  const auto split_all = [&](const auto& how) {
    std::vector<Box> boxes;
    std::swap(boxes, parts);
    for (const Box& box : boxes) split(box, how());
  };
  parts = {whole};
  if (cut == Cut::mixed) {
    for (int level = 0; level < 2; ++level)
      split_all([&] { return std::array{Cut::whole, Cut::rows, Cut::columns, Cut::runs}[random() % 4]; });
  } else if (cut == Cut::rows_then_runs || cut == Cut::columns_then_runs) {
    split_all([&] { return cut == Cut::rows_then_runs ? Cut::rows : Cut::columns; });
    split_all([] { return Cut::runs; });
  } else {
    split_all([&] { return cut; });
  }
  std::ranges::shuffle(parts, random);
  return parts;
}

}  // namespace partita::internal::test
