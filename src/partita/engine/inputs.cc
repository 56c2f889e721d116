#include "partita/engine/inputs.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace partita::internal {

bool Inputs::take(const Batch& batch, size_t index) {
  if (inputs_.size() <= index) inputs_.resize(index + 1);
  auto& [held, samples] = inputs_[index];
  bool moved = false;
  const auto copy = [&](at::Tensor& to, const at::Tensor& from) {
    if (to.defined() != from.defined() || (to.defined() && to.sizes() != from.sizes())) {
      to = from.defined() ? at::empty(from.sizes(), from.options().device(device_)) : at::Tensor();
      moved = true;
    }
    if (to.defined()) to.copy_(from, /*non_blocking=*/true);
  };
  copy(held.tokens, batch.tokens);
  copy(held.labels, batch.labels);
  copy(held.positions, batch.positions);
  copy(held.first_keys, batch.first_keys);
  held.samples = batch.samples;
  copy(samples, at::from_blob(held.samples.data(), {static_cast<int64_t>(held.samples.size())}, at::kLong));
  return moved;
}

}  // namespace partita::internal
