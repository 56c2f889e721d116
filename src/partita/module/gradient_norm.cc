#include "partita/module/gradient_norm.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

namespace partita::internal {

double gradient_norm(std::span<GradientStore* const> stores, double p, std::span<Communicator* const> groups,
                     Stream& compute, at::Device device) {
  const auto reduce = [&](const at::Tensor& value, Reduce kind) {
    for (Communicator* group : groups) compute.wait(group->all_reduce(value, kind, compute));
  };
  const at::Tensor total = at::zeros({1}, at::TensorOptions(at::kDouble).device(device));
  if (p == 2) {
    for (const GradientStore* store : stores) store->sum_of_squares(total);
    reduce(total, Reduce::sum);
    return std::sqrt(total.cpu().item<double>());
  }
  const at::Tensor largest = at::zeros_like(total);
  for (const GradientStore* store : stores)
    for (const at::Tensor& part : store->counted_slices()) {
      if (part.numel() == 0) continue;
      const at::Tensor magnitudes = part.abs();
      total.add_(magnitudes.sum(at::kDouble).to(device));
      largest.copy_(at::maximum(largest, magnitudes.max().to(device, at::kDouble)));
    }
  // The sum is exchanged for the largest element, too: libraries' maxima may drop NaN.
  reduce(total, Reduce::sum);
  if (p == 1) return total.cpu().item<double>();
  reduce(largest, Reduce::max);
  const bool finite = std::isfinite(total.cpu().item<double>());
  return finite ? largest.cpu().item<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace partita::internal
