#include "partita/shard/gradient_offload.h"

#include <ATen/ops/zeros.h>

#include "partita/device/host_memory.h"
#include "partita/ops/flat.h"

namespace partita::internal {

GradientOffload::GradientOffload(const GradientPlan& plan, at::Device device, Communicator& replica, Copies& copies)
    : replica_(replica), copies_(copies), arrived_(plan.slice.size()) {
  for (size_t u = 0; u < plan.slice.size(); ++u)
    host_.push_back(plan.slice[u] == SliceMemory::none
                        ? at::Tensor()
                        : pinned_zeros(plan.slice_count[u], plan.slice_dtype[u], device));
  squares_ = at::zeros({static_cast<int64_t>(plan.slice.size())}, at::TensorOptions(at::kDouble).device(device));
}

GradientOffload::Sent GradientOffload::send(int unit, const at::Tensor& slice, const Event& complete,
                                            Stream& communication) {
  Sent sent{.summed = complete, .copied = {}};
  if (replica_.size() > 1) {
    communication.wait(complete);
    sent.summed = replica_.all_reduce(slice, Reduce::sum, communication);
  }
  const auto u = static_cast<size_t>(unit);
  sent.copied = arrived_[u] = copies_.down(host_[u], slice, sent.summed);
  return sent;
}

void GradientOffload::measure(int unit, const at::Tensor& slice, std::span<const FlatRun> counted) {
  const at::Tensor squares = squares_.narrow(0, unit, 1);
  squares.zero_();
  for (const FlatRun& run : counted) sum_of_squares(slice.narrow(0, run.begin, run.count), squares);
}

void GradientOffload::add_squares(at::Tensor out) const {
  for (size_t u = 0; u < host_.size(); ++u)  // in unit order, like the sum on the device
    if (host_[u].defined()) out.add_(squares_.narrow(0, static_cast<int64_t>(u), 1));
}

}  // namespace partita::internal
