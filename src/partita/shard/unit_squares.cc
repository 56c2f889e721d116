#include "partita/shard/unit_squares.h"

#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "partita/ops/flat.h"

namespace partita::internal {

UnitSquares::UnitSquares(size_t units, at::Device device)
    : squares_(at::zeros({static_cast<int64_t>(units)}, at::TensorOptions(at::kDouble).device(device))) {}

void UnitSquares::measure(int unit, const at::Tensor& slice, std::span<const FlatRun> counted) const {
  const at::Tensor kept = squares_.narrow(0, unit, 1);
  const at::Tensor squares = slice.device() == kept.device() ? kept : at::zeros({1}, at::kDouble);
  squares.zero_();
  for (const FlatRun& run : counted) sum_of_squares(slice.narrow(0, run.begin, run.count), squares);
  if (!squares.is_same(kept)) kept.copy_(squares);
}

void UnitSquares::add_to(const at::Tensor& out) const {
  if (!out.is_cpu()) {
    out.add_(squares_.sum());
    return;
  }
  // torch's order depends on the instruction set.
  const auto* squares = squares_.const_data_ptr<double>();
  for (int64_t u = 0; u < squares_.numel(); ++u) *out.mutable_data_ptr<double>() += squares[u];
}

}  // namespace partita::internal
