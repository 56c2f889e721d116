#include "partita/ops/normal.h"

#include <fmt/format.h>

#include "partita/ops/cuda/normal.h"
#include "tests/ops_cuda/kernels_check.h"

namespace partita::internal::ops_cuda {
namespace {

struct Cut {
  int64_t n, first = 0, offset = 0;
};
const Cut kCuts[] = {{0},           {1},         {3, 2},       {4, 4},
                     {1000, 16},    {1001, 5},   {4096, 0, 1}, {5000, (int64_t{1} << 34) - 6},
                     {33333, 7, 3}, {1 << 24, 4}};

}  // namespace

// A model begins with the same weights on every device: to the last bit, however it is cut.
void check_normals(Report& report) {
  for (const at::ScalarType dtype : kDTypes)
    for (const Cut& cut : kCuts) {
      const NormalSequence sequence{
          .key = philox_key(hash_of(7, "weights")), .first = cut.first, .mean = 0.25F, .std = 0.02F};
      const at::Tensor cpu = nan({cut.n}, dtype), device = to_device(cpu, cut.offset);
      fill_normal(cpu, sequence);
      cuda::fill_normal(device, sequence);
      expect_same_bits(report,
                       fmt::format("normals {} first {} offset {}", text_of(dtype, {cut.n}), cut.first, cut.offset),
                       device, cpu);
    }
}

}  // namespace partita::internal::ops_cuda
