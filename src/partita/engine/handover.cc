#include "partita/engine/handover.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/scalar_type.h"

namespace partita::internal {
namespace {

constexpr int64_t kStamp = 3, kStampBytes = kStamp * static_cast<int64_t>(sizeof(int64_t));

void check_stamp(const at::Tensor& found, const at::Tensor& expected) {
  const auto text = [](const at::Tensor& stamp) {
    const auto* v = stamp.const_data_ptr<int64_t>();
    return fmt::format("{} of stage {}, micro-batch {}", v[0] == 0 ? "the output" : "the gradient", v[1], v[2]);
  };
  const at::Tensor on_host = found.cpu();
  if (!at::equal(on_host, expected))
    fail("a pipeline message is {}, expected {}: start all ranks with the same program and configuration",
         text(on_host), text(expected));
}

}  // namespace

HandoverUse handover_use(const Action& action, const StagePlacement& placement, int rank) {
  const int stage = placement.stage(rank, action.chunk), last = placement.stages() - 1;
  if (action.gradients == Gradients::weights) return {};
  const bool forward = action.pass == Pass::forward;
  const bool reads = forward ? stage > 0 : stage < last, writes = forward ? stage < last : stage > 0;
  const int neighbor = forward ? stage + 1 : stage - 1;
  const bool local = writes && placement.rank(neighbor) == rank;
  return {.reads = reads, .writes = writes, .local_chunk = local ? placement.chunk(neighbor) : -1};
}

Handover::Handover(const PipelineStage& stage, int buffers, int64_t rows, int64_t width, DType dtype, at::Device device,
                   const PipelineEdges& edges, Stream& compute, bool check)
    : stage_(stage),
      placement_(stage.placement()),
      edges_(edges),
      compute_(compute),
      memory_(at::empty({buffers, 2, rows, width}, at::TensorOptions(scalar_type(dtype)).device(device))),
      room_bytes_(edges.reserve(2 * rows * width * size_of(dtype), placement_.closes_ring())),
      messages_(static_cast<size_t>(buffers)) {
  if (check) stamps_ = at::empty({buffers, kStamp}, at::TensorOptions(at::kLong).device(device));
  for (int b = 0; b < buffers; ++b) unused_.push_back(b);
}

int64_t Handover::bytes(int buffers, const PipelineStage& stage, int64_t rows, int64_t width, DType dtype,
                        at::Device device, bool check) {
  const bool end = stage.rank == 0 || stage.rank == stage.shape.ranks - 1;
  const int neighbors = !stage.pipelined() ? 0 : end && !stage.placement().closes_ring() ? 1 : 2;
  const int messages = device.is_cpu() ? 0 : 2 * neighbors;
  return 2 * (buffers + messages) * rows * width * size_of(dtype) + (check ? buffers * kStampBytes : 0);
}

int Handover::acquire(const Key& key) {
  PARTITA_CHECK(!unused_.empty(), "all {} buffers between stages are in use", memory_.size(0));
  const int index = unused_.front();
  unused_.pop_front();
  held_[key] = index;
  wait(index);
  return index;
}

void Handover::wait(int index) {
  for (const Event& event : std::exchange(messages_[static_cast<size_t>(index)], {})) compute_.wait(event);
}

at::Tensor Handover::stamp(const Action& action, bool received) const {
  const bool forward = action.pass == Pass::forward;
  const int stage = placement_.stage(stage_.rank, action.chunk), sender = forward ? stage - 1 : stage + 1;
  const std::array<int64_t, kStamp> values = {forward ? 0 : 1, received ? sender : stage, action.micro_batch};
  at::Tensor stamp = at::empty({kStamp}, at::kLong);
  std::ranges::copy(values, stamp.data_ptr<int64_t>());
  return stamp;
}

void Handover::free(const Key& key) { unused_.push_back(held_.extract(key).mapped()); }

at::Tensor Handover::message(Pass pass, int index) const {
  return buffer(index).narrow(0, 0, pass == Pass::forward || stage_.two_gradients ? 2 : 1);
}

std::pair<at::Tensor, at::Tensor> Handover::read(const Action& action) {
  if (!handover_use(action, placement_, stage_.rank).reads) return {};
  const auto found = held_.find({action.pass, false, action.chunk, action.micro_batch});
  PARTITA_CHECK(found != held_.end(), "chunk {} has nothing for micro-batch {}", action.chunk, action.micro_batch);
  const bool arrived = !messages_[static_cast<size_t>(found->second)].empty();
  wait(found->second);
  if (stamps_.defined() && arrived) check_stamp(stamps_[found->second], stamp(action, true));
  const at::Tensor both = buffer(found->second);
  const bool two = action.pass == Pass::forward || stage_.two_gradients;
  return {both[0], both[two ? 1 : 0]};
}

void Handover::release(const Action& action) {
  if (handover_use(action, placement_, stage_.rank).reads) free({action.pass, false, action.chunk, action.micro_batch});
}

void Handover::write(const Action& action, const at::Tensor& sum, const at::Tensor& branch) {
  const HandoverUse use = handover_use(action, placement_, stage_.rank);
  if (!use.writes) return;
  const bool local = use.local_chunk >= 0;
  const at::Tensor to =
      message(action.pass, acquire({action.pass, !local, local ? use.local_chunk : action.chunk, action.micro_batch}));
  const auto put = [](const at::Tensor& part, const at::Tensor& from) {
    if (from.defined())
      part.copy_(from);
    else
      part.zero_();
  };
  put(to[0], sum);
  if (to.size(0) > 1) put(to[1], branch);
}

void Handover::transfer(const Action& action) {
  const bool sends = action.transfer == Transfer::send;
  const Key key{action.pass, sends, action.chunk, action.micro_batch};
  const int index = sends ? held_.at(key) : acquire(key);
  const at::Tensor parts = message(action.pass, index);
  std::vector<Event>& events = messages_[static_cast<size_t>(index)];
  const auto pass = [&](const at::Tensor& t) {
    events.push_back(sends ? edges_.send(t, action.peer, compute_) : edges_.receive(t, action.peer, compute_));
  };
  pass(parts);
  if (stamps_.defined()) {
    if (sends) stamps_[index].copy_(stamp(action, false));
    pass(stamps_[index]);
  }
  if (sends) free(key);
}

void Handover::finish() {
  for (int b = 0; b < static_cast<int>(messages_.size()); ++b) wait(b);
}

}  // namespace partita::internal
