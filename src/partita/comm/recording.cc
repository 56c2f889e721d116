#include "partita/comm/recording.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "partita/base/error.h"
#include "partita/comm/arguments.h"
#include "partita/comm/ordered_sum.h"

namespace partita::internal {
namespace {

// `size` equal rows, each with this rank's data.
std::vector<const void*> same_rows(const void* row, int size) { return std::vector(static_cast<size_t>(size), row); }

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

}  // namespace

RecordingCommunicator::RecordingCommunicator(std::string name, int rank, int size)
    : name_(std::move(name)), rank_(rank), size_(size) {
  if (rank < 0 || rank >= size) fail("{}: rank {} is not below size {}", name_, rank, size);
}

Event RecordingCommunicator::all_gather(at::Tensor full, at::Tensor slice, Stream& stream) {
  check_all_gather(*this, full, slice);
  records_.push_back({"all_gather", bytes_of(full), slice.scalar_type()});
  if (inner_) return inner_->all_gather(full, slice, stream);
  auto* to = static_cast<std::byte*>(full.mutable_data_ptr());
  for (int r = 0; r < size_; ++r, to += slice.nbytes())
    if (slice.nbytes() > 0) std::memmove(to, slice.const_data_ptr(), slice.nbytes());
  return {};
}

Event RecordingCommunicator::all_to_all(at::Tensor out, at::Tensor in, Stream& stream) {
  check_all_to_all(*this, out, in);
  records_.push_back({"all_to_all", bytes_of(in), in.scalar_type()});
  if (inner_) return inner_->all_to_all(out, in, stream);
  const size_t row = in.nbytes() / static_cast<size_t>(size_);
  const auto* from = static_cast<const std::byte*>(in.const_data_ptr()) + static_cast<size_t>(rank_) * row;
  auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
  for (int r = 0; r < size_; ++r, to += row)
    if (row > 0) std::memcpy(to, from, row);
  return {};
}

Event RecordingCommunicator::reduce_scatter(at::Tensor slice, at::Tensor full, Stream& stream) {
  check_reduce_scatter(*this, slice, full);
  records_.push_back({"reduce_scatter", bytes_of(full), full.scalar_type()});
  if (inner_) return inner_->reduce_scatter(slice, full, stream);
  const auto* part = static_cast<const std::byte*>(full.const_data_ptr()) +
                     full.nbytes() / static_cast<size_t>(size_) * static_cast<size_t>(rank_);
  reduce_rows(Reduce::sum, slice.scalar_type(), slice.mutable_data_ptr(), full.scalar_type(), same_rows(part, size_),
              slice.numel());
  return {};
}

Event RecordingCommunicator::all_reduce(at::Tensor tensor, Reduce kind, Stream& stream) {
  check_all_reduce(*this, tensor);
  records_.push_back({"all_reduce", bytes_of(tensor), tensor.scalar_type()});
  if (inner_) return inner_->all_reduce(tensor, kind, stream);
  reduce_rows(kind, tensor.scalar_type(), tensor.mutable_data_ptr(), tensor.scalar_type(),
              same_rows(tensor.const_data_ptr(), size_), tensor.numel());
  return {};
}

Event RecordingCommunicator::broadcast(at::Tensor tensor, int root, Stream& stream) {
  check_peer(*this, "broadcast", "root", root);
  check_tensor(*this, "broadcast", tensor);
  records_.push_back({"broadcast", bytes_of(tensor), tensor.scalar_type(), root});
  return inner_ ? inner_->broadcast(tensor, root, stream) : Event{};
}

Event RecordingCommunicator::send(at::Tensor tensor, int to, Stream& stream) {
  check_other(*this, "send", "to", to);
  check_tensor(*this, "send", tensor);
  records_.push_back({"send", bytes_of(tensor), tensor.scalar_type(), to});
  return inner_ ? inner_->send(tensor, to, stream) : Event{};
}

Event RecordingCommunicator::receive(at::Tensor tensor, int from, Stream& stream) {
  check_other(*this, "receive", "from", from);
  check_tensor(*this, "receive", tensor);
  records_.push_back({"receive", bytes_of(tensor), tensor.scalar_type(), from});
  return inner_ ? inner_->receive(tensor, from, stream) : Event{};
}

Event RecordingCommunicator::exchange(at::Tensor out, const std::vector<at::Tensor>& sent, Stream& stream) {
  check_exchange(*this, out, sent);
  records_.push_back({"exchange", bytes_of(out), out.scalar_type()});
  if (inner_) return inner_->exchange(out, sent, stream);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) out[r].copy_(sent[static_cast<size_t>(r)].view_as(out[r]));
  return {};
}

at::Tensor RecordingCommunicator::shared_memory(int64_t bytes, at::Device device) {
  return inner_ ? inner_->shared_memory(bytes, device)
                : at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
}

int64_t RecordingCommunicator::reserve_messages(int64_t bytes, bool receives) {
  return inner_ ? inner_->reserve_messages(bytes, receives) : 0;
}

void RecordingCommunicator::barrier() {
  records_.push_back({"barrier"});
  if (inner_) inner_->barrier();
}

void RecordingCommunicator::progress() {
  if (inner_) inner_->progress();
}

int64_t RecordingCommunicator::count(const std::string& kind) const {
  return std::count_if(records_.begin(), records_.end(), [&](const CollectiveRecord& r) { return r.kind == kind; });
}

int64_t RecordingCommunicator::bytes(const std::string& kind) const {
  int64_t total = 0;
  for (const CollectiveRecord& record : records_)
    if (record.kind == kind) total += record.bytes;
  return total;
}

}  // namespace partita::internal
