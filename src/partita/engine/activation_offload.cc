#include "partita/engine/activation_offload.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/host_memory.h"

namespace partita::internal {

std::array<int64_t, 2> OffloadPlan::buffer_bytes(std::span<const int64_t> kept_bytes) const {
  std::array<int64_t, 2> largest = {0, 0};
  for (size_t b = 0; b < buffer.size(); ++b)
    if (buffer[b] >= 0) {
      int64_t& size = largest[static_cast<size_t>(buffer[b])];
      size = std::max(size, kept_bytes[b]);
    }
  return largest;
}

int64_t OffloadPlan::host_bytes(std::span<const int64_t> kept_bytes) const {
  int64_t total = 0;
  for (size_t k = 0; k < leaves.size(); ++k)
    if (leaves[k]) total += kept_bytes[k % buffer.size()];
  return total;
}

int64_t OffloadPlan::copied_bytes(std::span<const int64_t> kept_bytes) const {
  int64_t total = 0;
  for (size_t i = 0; i < uses.size(); ++i)
    if (uses[i].leaves) total += (i < head ? times : 1) * kept_bytes[static_cast<size_t>(uses[i].block)];
  return total;
}

OffloadPlan plan_activation_offload(std::span<const BlockRecompute> recompute, std::span<const BlockKind> kinds,
                                    int layers, int slots, std::span<const SlotUse> uses, size_t head, int times) {
  OffloadPlan plan{.buffer = std::vector<int>(recompute.size(), -1), .uses = {}, .times = times};
  plan.leaves.assign(static_cast<size_t>(slots) * recompute.size(), false);
  int chosen = 0;
  for (size_t b = 0; b < recompute.size() && chosen < layers; ++b)
    if (kinds[b] == BlockKind::layer && recompute[b]) plan.buffer[b] = chosen++ % 2;
  std::array<int, 2> last = {-1, -1};  // [buffer]: its last use
  for (size_t i = 0; i < uses.size(); ++i) {
    if (i == head) plan.head = plan.uses.size();
    const auto [slot, use] = uses[i];
    const int buffer = plan.buffer[static_cast<size_t>(use.block)];
    if (buffer < 0) continue;
    OffloadUse& now = plan.uses.emplace_back(OffloadUse{.slot = slot, .block = use.block, .pass = use.pass});
    const int index = static_cast<int>(plan.uses.size()) - 1;
    const int before = std::exchange(last[static_cast<size_t>(buffer)], index);
    if (before < 0) continue;
    OffloadUse& previous = plan.uses[static_cast<size_t>(before)];
    const bool same = previous.slot == now.slot && previous.block == now.block;
    if (previous.pass == Pass::forward && !same) {
      previous.leaves = true;
      plan.leaves[static_cast<size_t>(previous.slot) * recompute.size() + static_cast<size_t>(previous.block)] = true;
    }
    if (now.pass == Pass::forward) {
      if (previous.leaves) now.overwrites = before;
    } else if (!same) {
      now.returns = true;
      previous.next = index;
    }
  }
  if (head == uses.size()) plan.head = plan.uses.size();
  return plan;
}

ActivationOffload::ActivationOffload(const OffloadPlan& plan, std::span<const int64_t> kept_bytes,
                                     const Options& options, Copies& copies, Stream& compute)
    : plan_(plan),
      options_(options),
      copies_(copies),
      compute_(compute),
      memory_(plan.buffer.size()),
      host_(plan.leaves.size()),
      left_(plan.leaves.size()),
      back_(plan.leaves.size()) {
  const std::array<int64_t, 2> largest = plan_.buffer_bytes(kept_bytes);
  for (size_t s = 0; s < buffers_.size(); ++s)
    buffers_[s] = at::empty({largest[s]}, at::TensorOptions(at::kByte).device(options.device));
  for (size_t b = 0; b < memory_.size(); ++b)
    if (plan_.buffer[b] >= 0) memory_[b] = buffers_[static_cast<size_t>(plan_.buffer[b])].narrow(0, 0, kept_bytes[b]);
  for (size_t k = 0; k < host_.size(); ++k)
    if (plan_.leaves[k]) host_[k] = pinned_bytes(kept_bytes[k % memory_.size()], options.device);
}

void ActivationOffload::begin() {
  next_ = 0;
  times_ = plan_.times - 1;
  after_pass_.clear();  // of a step that has failed
}

const OffloadUse* ActivationOffload::due(int slot, int block, Pass pass) const {
  if (plan_.buffer[static_cast<size_t>(block)] < 0) return nullptr;
  PARTITA_CHECK(next_ < plan_.uses.size() && plan_.uses[next_].slot == slot && plan_.uses[next_].block == block &&
                    plan_.uses[next_].pass == pass,
                "block {} in slot {} is not use {} of offloaded activations", block, slot, next_);
  return &plan_.uses[next_];
}

void ActivationOffload::before(int slot, int block, Pass pass) {
  const OffloadUse* use = due(slot, block, pass);
  if (use == nullptr) return;
  if (use->overwrites >= 0) compute_.wait(left_[key(plan_.uses[static_cast<size_t>(use->overwrites)])]);
  if (use->returns) compute_.wait(back_[key(*use)]);
  if (options_.poison && pass == Pass::forward) memory(block).fill_(255);  // all bits: NaN in every floating type
}

void ActivationOffload::after(int slot, int block, Pass pass) {
  const OffloadUse* use = due(slot, block, pass);
  if (use == nullptr) return;
  const size_t own = key(*use);
  if (use->leaves) left_[own] = copies_.down(host_[own], memory(block), compute_.record());
  if (use->next >= 0 && pass == Pass::forward)
    after_pass_.push_back(use);
  else if (use->next >= 0)
    fetch_after(*use);
  if (++next_ == plan_.head && times_ > 0) {
    next_ = 0;
    --times_;
  }
}

void ActivationOffload::end_pass() {
  for (const OffloadUse* use : after_pass_) {
    compute_.wait(left_[key(*use)]);
    fetch_after(*use);
  }
  after_pass_.clear();
}

void ActivationOffload::fetch_after(const OffloadUse& use) {
  const OffloadUse& next = plan_.uses[static_cast<size_t>(use.next)];
  if (options_.poison) memory(use.block).fill_(255);
  back_[key(next)] = copies_.up(memory(next.block), host_[key(next)], compute_.record());
}

int64_t ActivationOffload::bytes() const { return static_cast<int64_t>(buffers_[0].nbytes() + buffers_[1].nbytes()); }

int64_t ActivationOffload::host_bytes() const {
  int64_t total = 0;
  for (const at::Tensor& host : host_)
    if (host.defined()) total += static_cast<int64_t>(host.nbytes());
  return total;
}

}  // namespace partita::internal
