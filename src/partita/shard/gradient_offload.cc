#include "partita/shard/gradient_offload.h"

#include "partita/device/host_memory.h"

namespace partita::internal {

GradientOffload::GradientOffload(const GradientPlan& plan, at::Device device, Communicator& replica, Copies& copies)
    : replica_(replica), copies_(copies), arrived_(plan.slice.size()), squares_(plan.slice.size(), device) {
  for (size_t u = 0; u < plan.slice.size(); ++u)
    host_.push_back(plan.slice[u] == SliceMemory::none
                        ? at::Tensor()
                        : pinned_zeros(plan.slice_count[u], plan.slice_dtype[u], device));
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

}  // namespace partita::internal
