#include "cli/job_ranks.h"

#include <algorithm>

namespace partita::cli {

int64_t job_ranks(const ParallelConfig& p, int64_t asked) {
  if (asked > 0) return asked;
  int64_t ranks = 1;
  for (const int64_t size : {p.tensor, p.context, p.pipeline, std::max<int64_t>(p.data, 1)})
    if (__builtin_mul_overflow(ranks, size, &ranks)) return 1;
  return ranks;
}

}  // namespace partita::cli
