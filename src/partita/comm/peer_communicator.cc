#include "partita/comm/peer_communicator.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <utility>

#include "partita/base/error.h"
#include "partita/comm/arguments.h"
#include "partita/comm/ordered_sum.h"

namespace partita::internal {
namespace {

// Up to this size latency dominates: one round with all data is faster than two with 1/N each.
constexpr int64_t kSmallBytes = 16 << 10;

// Visits peers starting after this rank, so that the ranks do not all send to the same one at the same time.
template <class Visit>
void for_each_peer(const Group& group, Visit visit) {
  for (int i = 1; i < group.size(); ++i) visit((group.rank + i) % group.size());
}

std::byte* data(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }
std::span<std::byte> whole(const at::Tensor& tensor) { return {data(tensor), tensor.nbytes()}; }

// A tensor in equal parts, one per rank.
std::span<std::byte> part(const at::Tensor& tensor, int index, int parts) {
  const size_t bytes = tensor.nbytes() / static_cast<size_t>(parts);
  return whole(tensor).subspan(static_cast<size_t>(index) * bytes, bytes);
}

void copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty() && to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
}

// The rows of a reduction by rank: this rank's in place, the others in scratch memory.
struct Rows {
  std::vector<const void*> by_rank;

  // Receives every peer's values for this rank's elements. `mine`: this rank's row.
  void collect(Operation& operation, std::span<const std::byte> mine) {
    const Group& group = *operation.call().group;
    by_rank.resize(group.ranks.size());
    std::byte* place = operation.scratch(mine.size() * (by_rank.size() - 1)).data();
    by_rank[static_cast<size_t>(group.rank)] = mine.data();
    for_each_peer(group, [&](int peer) {
      by_rank[static_cast<size_t>(peer)] = place;
      operation.receive(peer, {place, mine.size()});
      place += mine.size();
    });
  }
};

}  // namespace

PeerCommunicator::PeerCommunicator(std::shared_ptr<Operations> operations, Group group)
    : operations_(std::move(operations)),
      group_(std::make_shared<const Group>(std::move(group))),
      sent_to_(group_->ranks.size()),
      received_from_(group_->ranks.size()) {}

Call PeerCommunicator::next(const char* kind, const at::Tensor& tensor) {
  return {group_, kind, calls_++, tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0};
}

Event PeerCommunicator::all_gather(at::Tensor full, at::Tensor slice, Stream&) {
  check_all_gather(*this, full, slice);
  const auto exchange = [full, slice](Operation& o) {
    const Group& group = *o.call().group;
    for_each_peer(group, [&](int peer) { o.receive(peer, part(full, peer, group.size())); });
    for_each_peer(group, [&](int peer) { o.send(peer, whole(slice)); });
    copy(part(full, group.rank, group.size()), whole(slice));
  };
  return operations_->start(next("all_gather", full), {exchange});
}

Event PeerCommunicator::all_to_all(at::Tensor out, at::Tensor in, Stream&) {
  check_all_to_all(*this, out, in);
  const auto exchange = [out, in](Operation& o) {
    const Group& group = *o.call().group;
    for_each_peer(group, [&](int peer) { o.receive(peer, part(out, peer, group.size())); });
    for_each_peer(group, [&](int peer) { o.send(peer, part(in, peer, group.size())); });
    copy(part(out, group.rank, group.size()), part(in, group.rank, group.size()));
  };
  return operations_->start(next("all_to_all", in), {exchange});
}

Event PeerCommunicator::reduce_scatter(at::Tensor slice, at::Tensor full, Stream&) {
  check_reduce_scatter(*this, slice, full);
  const auto rows = std::make_shared<Rows>();
  const auto exchange = [full, rows](Operation& o) {
    const Group& group = *o.call().group;
    rows->collect(o, part(full, group.rank, group.size()));
    for_each_peer(group, [&](int peer) { o.send(peer, part(full, peer, group.size())); });
  };
  const auto add = [slice, from = full.scalar_type(), rows](Operation&) {
    reduce_rows(Reduce::sum, slice.scalar_type(), data(slice), from, rows->by_rank, slice.numel());
  };
  return operations_->start(next("reduce_scatter", full), {exchange, add});
}

Event PeerCommunicator::all_reduce(at::Tensor tensor, Reduce kind, Stream&) {
  check_all_reduce(*this, tensor);
  return static_cast<int64_t>(tensor.nbytes()) <= kSmallBytes ? all_reduce_at_once(tensor, kind)
                                                              : all_reduce_in_parts(tensor, kind);
}

Event PeerCommunicator::all_reduce_at_once(const at::Tensor& tensor, Reduce kind) {
  const auto rows = std::make_shared<Rows>();
  const auto exchange = [tensor, rows](Operation& o) {
    rows->collect(o, whole(tensor));
    for_each_peer(*o.call().group, [&](int peer) { o.send(peer, whole(tensor)); });
  };
  const auto add = [tensor, kind, rows](Operation&) {
    reduce_rows(kind, tensor.scalar_type(), data(tensor), tensor.scalar_type(), rows->by_rank, tensor.numel());
  };
  return operations_->start(next("all_reduce", tensor), {exchange, add});
}

Event PeerCommunicator::all_reduce_in_parts(const at::Tensor& tensor, Reduce kind) {
  // Rank r sums part r of the elements; part sizes differ by at most one element.
  const auto range = [tensor](const Group& group, int rank) {
    const int64_t size = group.size(), n = tensor.numel(), begin = n * rank / size, end = n * (rank + 1) / size;
    const auto width = static_cast<size_t>(tensor.element_size());
    return whole(tensor).subspan(static_cast<size_t>(begin) * width, static_cast<size_t>(end - begin) * width);
  };
  const auto rows = std::make_shared<Rows>();
  const auto exchange = [range, rows](Operation& o) {
    const Group& group = *o.call().group;
    rows->collect(o, range(group, group.rank));
    for_each_peer(group, [&](int peer) { o.send(peer, range(group, peer)); });
  };
  const auto add_and_gather = [range, rows, kind, tensor](Operation& o) {
    const Group& group = *o.call().group;
    const std::span<std::byte> mine = range(group, group.rank);
    for_each_peer(group, [&](int peer) { o.receive(peer, range(group, peer)); });
    reduce_rows(kind, tensor.scalar_type(), mine.data(), tensor.scalar_type(), rows->by_rank,
                static_cast<int64_t>(mine.size()) / tensor.element_size());
    for_each_peer(group, [&](int peer) { o.send(peer, mine); });
  };
  return operations_->start(next("all_reduce", tensor), {exchange, add_and_gather});
}

Event PeerCommunicator::broadcast(at::Tensor tensor, int root, Stream&) {
  check_peer(*this, "broadcast", "root", root);
  check_tensor(*this, "broadcast", tensor);
  // With ranks relative to the root, the parent of r is r without its lowest set bit; its children add a lower bit.
  const int count = size(), relative = (rank() - root + count) % count;
  const auto from_parent = [=](Operation& o) {
    if (relative != 0) o.receive(((relative & (relative - 1)) + root) % count, whole(tensor));
  };
  const auto to_children = [=](Operation& o) {
    int bit = 1;
    while (bit < count && (relative & bit) == 0) bit *= 2;
    while ((bit /= 2) > 0)
      if (relative + bit < count) o.send((relative + bit + root) % count, whole(tensor));
  };
  return operations_->start(next("broadcast", tensor), {from_parent, to_children});
}

Event PeerCommunicator::exchange(at::Tensor out, const std::vector<at::Tensor>& sent, Stream&) {
  check_exchange(*this, out, sent);
  const auto stage = [out, sent](Operation& o) {
    const size_t bytes = out.nbytes() / sent.size();
    for_each_peer(*o.call().group, [&](int peer) {
      o.receive(peer, whole(out).subspan(static_cast<size_t>(peer) * bytes, bytes));
      o.send(peer, whole(sent[static_cast<size_t>(peer)]));
    });
  };
  return operations_->start(next("exchange", out), {stage});
}

at::Tensor PeerCommunicator::shared_memory(int64_t bytes, at::Device device) {
  PARTITA_CHECK(device.is_cpu(), "memory of {} for a group of the host", device.str());
  return at::empty({bytes}, at::kByte);
}

int64_t PeerCommunicator::reserve_messages(int64_t, bool) { return 0; }

Event PeerCommunicator::send(at::Tensor tensor, int to, Stream&) {
  check_other(*this, "send", "to", to);
  check_tensor(*this, "send", tensor);
  const Call call{group_, "send", sent_to_[static_cast<size_t>(to)]++, static_cast<int64_t>(tensor.nbytes()), to};
  return operations_->start(call, {[tensor, to](Operation& o) { o.send(to, whole(tensor)); }});
}

Event PeerCommunicator::receive(at::Tensor tensor, int from, Stream&) {
  check_other(*this, "receive", "from", from);
  check_tensor(*this, "receive", tensor);
  const Call call{group_, "receive", received_from_[static_cast<size_t>(from)]++, static_cast<int64_t>(tensor.nbytes()),
                  from};
  return operations_->start(call, {[tensor, from](Operation& o) { o.receive(from, whole(tensor)); }});
}

void PeerCommunicator::barrier() {
  // In round k every rank notifies the one 2^k after it, and is notified by the one 2^k before.
  std::vector<Operation::Stage> rounds;
  for (int distance = 1; distance < size(); distance *= 2)
    rounds.emplace_back([distance](Operation& o) {
      const Group& group = *o.call().group;
      o.receive((group.rank - distance + group.size()) % group.size(), {});
      o.send((group.rank + distance) % group.size(), {});
    });
  operations_->start(next("barrier", {}), std::move(rounds)).wait();
}

void PeerCommunicator::progress() { operations_->progress(); }

}  // namespace partita::internal
