#include "partita/shard/gradient_offload.h"

#include "partita/device/host_memory.h"

namespace partita::internal {

GradientOffload::GradientOffload(const GradientPlan& plan, at::Device device, Communicator& replica, Copies& copies)
    : replica_(replica), copies_(copies), arrived_(plan.slice.size()) {
  for (size_t u = 0; u < plan.slice.size(); ++u)
    host_.push_back(plan.on_host[u] ? pinned_zeros(plan.slice_count[u], plan.slice_dtype[u], device) : at::Tensor());
}

GradientOffload::Sent GradientOffload::send(int unit, const at::Tensor& slice, const Event& complete,
                                            Stream& communication) {
  Sent sent{.summed = complete, .copied = {}};
  if (replica_.size() > 1) {
    communication.wait(complete);
    sent.summed = replica_.all_reduce(slice, Reduce::sum, communication);
  }
  sent.copied = copy(unit, slice, sent.summed);
  return sent;
}

Event GradientOffload::copy(int unit, const at::Tensor& slice, const Event& complete) {
  const auto u = static_cast<size_t>(unit);
  return arrived_[u] = copies_.down(host_[u], slice, complete);
}

}  // namespace partita::internal
