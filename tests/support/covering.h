// Settings of tests that are too many to be tried all: a part of their product in which each pair of values of two
// settings occurs. The same at every call.
//
//   for (const std::vector<int>& row : cover_pairs({4, 2, 3})) ...   // row: {0..3, 0..1, 0..2}, 12 of 24 rows
#pragma once
#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

namespace partita::test {

[[nodiscard]] inline std::vector<std::vector<int>> cover_pairs(const std::vector<int>& sizes) {
  using Pair = std::tuple<size_t, int, size_t, int>;  // setting, value, later setting, value
  std::set<Pair> open;
  for (size_t i = 0; i < sizes.size(); ++i)
    for (size_t j = i + 1; j < sizes.size(); ++j)
      for (int a = 0; a < sizes[i]; ++a)
        for (int b = 0; b < sizes[j]; ++b) open.insert({i, a, j, b});
  std::vector<std::vector<int>> rows;
  while (!open.empty()) {
    // A row starts with an open pair; each other setting takes the value that closes most pairs with those taken.
    const auto [first, a, second, b] = *open.begin();
    std::vector<int> row(sizes.size(), -1);
    row[first] = a, row[second] = b;
    const auto closed = [&](size_t i, int value) {
      size_t count = 0;
      for (size_t j = 0; j < sizes.size(); ++j)
        if (j != i && row[j] >= 0)
          count += i < j ? open.count({i, value, j, row[j]}) : open.count({j, row[j], i, value});
      return count;
    };
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (row[i] >= 0) continue;
      const int start = static_cast<int>(rows.size()) % sizes[i];  // ties: values in turn
      int best = start;
      for (int n = 1; n < sizes[i]; ++n)
        if (const int value = (start + n) % sizes[i]; closed(i, value) > closed(i, best)) best = value;
      row[i] = best;
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      for (size_t j = i + 1; j < sizes.size(); ++j) open.erase({i, row[i], j, row[j]});
    rows.push_back(row);
  }
  return rows;
}

}  // namespace partita::test
