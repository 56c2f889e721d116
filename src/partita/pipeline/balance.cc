#include "partita/pipeline/balance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"

namespace partita::internal {

StageCut balance_stages(std::span<const double> block_times, int stages) {
  if (stages < 1) fail("cannot cut a model into {} stages: expected at least 1", stages);
  const size_t blocks = block_times.size(), count = static_cast<size_t>(stages);
  if (blocks < count)
    fail("cannot cut {} blocks into {} stages, each of at least one: use fewer pipeline ranks or stages per rank",
         blocks, stages);
  std::vector<double> before(blocks + 1);  // [block]: time of all blocks before it
  for (size_t b = 0; b < blocks; ++b) {
    if (!std::isfinite(block_times[b]) || block_times[b] < 0)
      fail("block {} takes {}: expected a time of at least 0", b, block_times[b]);
    before[b + 1] = before[b] + block_times[b];
  }
  // best[s][b]: slowest stage if blocks b and after are cut into s stages.
  std::vector<std::vector<double>> best(count + 1,
                                        std::vector<double>(blocks + 1, std::numeric_limits<double>::infinity()));
  best[0][blocks] = 0;
  const auto slowest = [&](size_t s, size_t begin, size_t end) {
    return std::max(before[end] - before[begin], best[s - 1][end]);
  };
  for (size_t s = 1; s <= count; ++s)
    for (size_t begin = 0; begin < blocks; ++begin)
      for (size_t end = begin + 1; end <= blocks; ++end)
        best[s][begin] = std::min(best[s][begin], slowest(s, begin, end));

  StageCut cut{.first = {0}, .slowest = best[count][0]};
  const double as_good = cut.slowest * (1 + 1e-12);  // sums of the same times in another order
  for (size_t s = count, begin = 0; s > 0; --s) {
    size_t end = begin + 1;
    while (slowest(s, begin, end) > as_good) ++end;
    cut.first.push_back(static_cast<int>(end));
    begin = end;
  }
  return cut;
}

}  // namespace partita::internal
