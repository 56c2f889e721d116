#include "partita/engine/amax_history.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include "partita/base/error.h"
#include "partita/ops/fp8.h"

namespace partita::internal {

AmaxHistory::AmaxHistory(std::span<const std::unique_ptr<Block>> blocks, int slots, at::Device device)
    : blocks_(blocks.size()) {
  int64_t all = 0;
  for (const auto& block : blocks) all += block->traits().fp8_scales;
  const auto options = at::TensorOptions(at::kFloat).device(device);
  scales_ = at::zeros({slots, all, kFp8Scale}, options);
  history_ = at::zeros({all, kSteps}, options);
  for (int slot = 0; slot < slots; ++slot) {
    int64_t first = 0;
    for (const auto& block : blocks) {
      const int64_t count = block->traits().fp8_scales;
      of_block_.push_back(count > 0 ? scales_[slot].narrow(0, first, count) : at::Tensor());
      first += count;
    }
  }
}

at::Tensor AmaxHistory::begin(int slot, int block) {
  const at::Tensor scales = this->scales(slot, block);
  if (!known_ && scales.defined()) scales.select(1, kFp8Expected).zero_();
  return scales;
}

void AmaxHistory::poison(at::Tensor sum) const { sum.add_(measured().mul(0).sum()); }

void AmaxHistory::record(int64_t update, Communicator& data, Communicator* tensor, Stream& compute) {
  const at::Tensor now = measured().amax({0});
  compute.wait(data.all_reduce(now, Reduce::max, compute));
  if (tensor != nullptr) compute.wait(tensor->all_reduce(now, Reduce::max, compute));
  history_.select(1, update % kSteps).copy_(now);
  expected().copy_(history_.amax({1}));
  measured().zero_();
  known_ = true;
}

void AmaxHistory::skip() { measured().zero_(); }

std::vector<float> AmaxHistory::values() const {
  if (!known_) return {};
  const at::Tensor host = history_.to(at::kCPU).contiguous();
  const auto* data = host.const_data_ptr<float>();
  return {data, data + host.numel()};
}

void AmaxHistory::set(std::span<const float> values) {
  if (!values.empty() && std::ssize(values) != history_.numel())
    fail("{} fp8 amax values, expected {}: they are from a different model", values.size(), history_.numel());
  scales_.zero_();
  history_.zero_();
  known_ = !values.empty();
  if (!known_) return;
  // from_blob has no const overload.
  history_.copy_(at::from_blob(const_cast<float*>(values.data()), history_.sizes(), at::kFloat));
  expected().copy_(history_.amax({1}));
}

}  // namespace partita::internal
