#include "partita/shard/gradient_offload.h"

#include "partita/device/host_memory.h"
#include "partita/ops/flat.h"

namespace partita::internal {

GradientOffload::GradientOffload(const GradientPlan& plan, at::Device device, Communicator& replica, Copies& copies)
    : replica_(replica),
      copies_(copies),
      adds_(plan.adds_on_host),
      has_sum_(plan.slice.size()),
      arrived_(plan.slice.size()) {
  for (size_t u = 0; u < plan.slice.size(); ++u)
    host_.push_back(plan.on_host[u] ? pinned_zeros(plan.slice_count[u], plan.slice_dtype[u], device) : at::Tensor());
  if (plan.arrival_bytes() == 0) return;
  for (Arrival& arrival : arrivals_) arrival.memory = pinned_bytes(plan.arrival_bytes(), device);
  adder_ = std::make_unique<Worker>();
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
  if (!has_sum_[u]) {
    has_sum_[u] = adds_[u];
    return arrived_[u] = copies_.down(host_[u], slice, complete);
  }
  Arrival& arrival = arrivals_[turn_++ % arrivals_.size()];
  arrival.added.wait();
  const at::Tensor part = arrival.memory.narrow(0, 0, static_cast<int64_t>(slice.nbytes())).view(slice.scalar_type());
  const Event copied = copies_.down(part, slice, complete);
  arrived_[u] = arrival.added = adder_->submit([sum = host_[u], part, copied, before = arrived_[u]] {
    before.wait();
    copied.wait();
    add_into(sum, part, true);
    return Event();
  });
  return copied;
}

int64_t GradientOffload::bytes() const {
  int64_t total = 0;
  const auto add = [&total](const at::Tensor& tensor) {
    if (tensor.defined()) total += static_cast<int64_t>(tensor.nbytes());
  };
  for (const at::Tensor& slice : host_) add(slice);
  for (const Arrival& arrival : arrivals_) add(arrival.memory);
  return total;
}

}  // namespace partita::internal
