#include "partita/engine/activation_offload.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "partita/device/host_memory.h"

namespace partita::internal {

std::vector<OffloadedBlock> plan_activation_offload(std::span<const BlockRecompute> recompute,
                                                    std::span<const BlockKind> kinds, int layers) {
  std::vector<OffloadedBlock> plan(recompute.size());
  std::vector<int> chosen;
  for (size_t b = 0; b < recompute.size() && static_cast<int>(chosen.size()) < layers; ++b)
    if (kinds[b] == BlockKind::layer && recompute[b]) chosen.push_back(static_cast<int>(b));
  for (size_t i = 0; i < chosen.size(); ++i)
    plan[static_cast<size_t>(chosen[i])] = {
        .slot = static_cast<int>(i % 2), .leaves = i + 2 < chosen.size(), .before = i < 2 ? -1 : chosen[i - 2]};
  return plan;
}

std::array<int64_t, 2> offload_slot_bytes(std::span<const OffloadedBlock> plan, std::span<const int64_t> kept_bytes) {
  std::array<int64_t, 2> largest = {0, 0};
  for (size_t b = 0; b < plan.size(); ++b)
    if (plan[b].slot >= 0) {
      int64_t& size = largest[static_cast<size_t>(plan[b].slot)];
      size = std::max(size, kept_bytes[b]);
    }
  return largest;
}

ActivationOffload::ActivationOffload(std::vector<OffloadedBlock> plan, std::span<const int64_t> kept_bytes,
                                     const Options& options, Copies& copies, Stream& compute)
    : plan_(std::move(plan)),
      options_(options),
      copies_(copies),
      compute_(compute),
      memory_(plan_.size()),
      host_(plan_.size()),
      left_(plan_.size()),
      back_(plan_.size()) {
  const std::array<int64_t, 2> largest = offload_slot_bytes(plan_, kept_bytes);
  for (size_t s = 0; s < slots_.size(); ++s)
    slots_[s] = at::empty({largest[s]}, at::TensorOptions(at::kByte).device(options.device));
  for (size_t b = 0; b < plan_.size(); ++b) {
    if (plan_[b].slot < 0) continue;
    memory_[b] = slots_[static_cast<size_t>(plan_[b].slot)].narrow(0, 0, kept_bytes[b]);
    if (plan_[b].leaves) host_[b] = pinned_bytes(kept_bytes[b], options.device);
  }
}

void ActivationOffload::before_forward(int b) {
  const OffloadedBlock& now = block(b);
  if (now.before < 0) return;
  compute_.wait(left_[static_cast<size_t>(now.before)]);
  if (options_.poison) memory(b).fill_(255);  // all bits: NaN in every floating type
}

void ActivationOffload::after_forward(int b) {
  const auto index = static_cast<size_t>(b);
  if (block(b).leaves) left_[index] = copies_.down(host_[index], memory_[index], compute_.record());
}

void ActivationOffload::before_backward(int b) {
  if (block(b).leaves) compute_.wait(back_[static_cast<size_t>(b)]);
}

void ActivationOffload::after_backward(int b) {
  const int before = block(b).before;
  if (before < 0) return;
  const auto index = static_cast<size_t>(before);
  if (options_.poison) memory(b).fill_(255);
  back_[index] = copies_.up(memory_[index], host_[index], compute_.record());
}

int64_t ActivationOffload::bytes() const { return static_cast<int64_t>(slots_[0].nbytes() + slots_[1].nbytes()); }

int64_t ActivationOffload::host_bytes() const {
  int64_t total = 0;
  for (const at::Tensor& host : host_)
    if (host.defined()) total += static_cast<int64_t>(host.nbytes());
  return total;
}

}  // namespace partita::internal
