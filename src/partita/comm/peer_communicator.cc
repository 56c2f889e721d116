#include "partita/comm/peer_communicator.h"

#include <cstring>
#include <utility>

#include "partita/base/error.h"
#include "partita/comm/arguments.h"
#include "partita/comm/ordered_sum.h"

namespace partita {
namespace {

// Up to here latency decides: one round of messages with all of the data beats two with 1/N each.
constexpr int64_t kSmallBytes = 16 << 10;

using Stages = std::vector<Operation::Stage>;

// Peers in an order that starts beside this rank, so that the ranks do not all send to the same one at once.
template <class Visit>
void for_each_peer(const Group& group, Visit visit) {
  for (int i = 1; i < group.size(); ++i) visit((group.rank + i) % group.size());
}

std::byte* data(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }
size_t bytes_of(const at::Tensor& tensor) { return tensor.nbytes(); }

// Equal parts of a tensor, one a rank.
std::span<std::byte> part(const at::Tensor& tensor, int index, int parts) {
  const size_t bytes = bytes_of(tensor) / static_cast<size_t>(parts);
  return {data(tensor) + static_cast<size_t>(index) * bytes, bytes};
}

void copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty() && to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
}

// Where rank r's row of a reduction lies: one's own in place, the others' in scratch memory.
struct Rows {
  std::vector<const void*> by_rank;

  // Receives from each peer what it has of this rank's elements. `mine` is this rank's row.
  Rows(Operation& operation, std::span<const std::byte> mine) : by_rank(static_cast<size_t>(operation.call().group->size())) {
    const Group& group = *operation.call().group;
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

Call PeerCommunicator::next(const char* kind, int64_t bytes) { return {group_, kind, calls_++, bytes}; }

Event PeerCommunicator::all_gather(at::Tensor full, at::Tensor slice, Stream&) {
  check_all_gather(*this, full, slice);
  return operations_->start(next("all_gather", static_cast<int64_t>(full.nbytes())), {[full, slice](Operation& o) {
    const Group& group = *o.call().group;
    const std::span<std::byte> mine{data(slice), bytes_of(slice)};
    for_each_peer(group, [&](int peer) { o.receive(peer, part(full, peer, group.size())); });
    for_each_peer(group, [&](int peer) { o.send(peer, mine); });
    copy(part(full, group.rank, group.size()), mine);
  }});
}

Event PeerCommunicator::all_to_all(at::Tensor out, at::Tensor in, Stream&) {
  check_all_to_all(*this, out, in);
  return operations_->start(next("all_to_all", static_cast<int64_t>(in.nbytes())), {[out, in](Operation& o) {
    const Group& group = *o.call().group;
    for_each_peer(group, [&](int peer) { o.receive(peer, part(out, peer, group.size())); });
    for_each_peer(group, [&](int peer) { o.send(peer, part(in, peer, group.size())); });
    copy(part(out, group.rank, group.size()), part(in, group.rank, group.size()));
  }});
}

Event PeerCommunicator::reduce_scatter(at::Tensor slice, at::Tensor full, Stream&) {
  check_reduce_scatter(*this, slice, full);
  auto rows = std::make_shared<std::optional<Rows>>();
  return operations_->start(
      next("reduce_scatter", static_cast<int64_t>(full.nbytes())),
      {[full, rows](Operation& o) {
         const Group& group = *o.call().group;
         rows->emplace(o, part(full, group.rank, group.size()));
         for_each_peer(group, [&](int peer) { o.send(peer, part(full, peer, group.size())); });
       },
       [slice, full, rows](Operation&) {
         reduce_rows(Reduce::sum, slice.scalar_type(), data(slice), full.scalar_type(), (*rows)->by_rank, slice.numel());
       }});
}

Event PeerCommunicator::all_reduce(at::Tensor tensor, Reduce kind, Stream&) {
  check_all_reduce(*this, tensor);
  auto rows = std::make_shared<std::optional<Rows>>();
  Call call = next("all_reduce", static_cast<int64_t>(tensor.nbytes()));
  const at::ScalarType dtype = tensor.scalar_type();
  if (call.bytes <= kSmallBytes) {
    return operations_->start(call, {[tensor, rows](Operation& o) {
                                       const std::span<const std::byte> mine{data(tensor), bytes_of(tensor)};
                                       rows->emplace(o, mine);
                                       for_each_peer(*o.call().group, [&](int peer) { o.send(peer, mine); });
                                     },
                                     [=](Operation&) {
                                       reduce_rows(kind, dtype, data(tensor), dtype, (*rows)->by_rank, tensor.numel());
                                     }});
  }
  // Part r of the elements is summed by rank r; the parts differ by one element when the ranks do not divide them.
  const auto range = [tensor](const Group& group, int rank) {
    const int64_t size = group.size(), n = tensor.numel(), begin = n * rank / size, end = n * (rank + 1) / size;
    const auto width = static_cast<size_t>(tensor.element_size());
    return std::span<std::byte>(data(tensor) + static_cast<size_t>(begin) * width,
                                static_cast<size_t>(end - begin) * width);
  };
  return operations_->start(
      call, {[range, rows](Operation& o) {
               const Group& group = *o.call().group;
               rows->emplace(o, range(group, group.rank));
               for_each_peer(group, [&](int peer) { o.send(peer, range(group, peer)); });
             },
             [=](Operation& o) {
               const Group& group = *o.call().group;
               const std::span<std::byte> mine = range(group, group.rank);
               for_each_peer(group, [&](int peer) { o.receive(peer, range(group, peer)); });
               reduce_rows(kind, dtype, mine.data(), dtype, (*rows)->by_rank,
                           static_cast<int64_t>(mine.size() / static_cast<size_t>(tensor.element_size())));
               for_each_peer(group, [&](int peer) { o.send(peer, mine); });
             }});
}

Event PeerCommunicator::broadcast(at::Tensor tensor, int root, Stream&) {
  check_peer(*this, "broadcast", "root", root);
  check_tensor(*this, "broadcast", tensor);
  // Ranks counted from the root: the parent of r is r without its lowest set bit, and its children add a lower bit.
  return operations_->start(next("broadcast", static_cast<int64_t>(tensor.nbytes())),
                            {[tensor, root](Operation& o) {
                               const Group& group = *o.call().group;
                               const int size = group.size(), relative = (group.rank - root + size) % size;
                               if (relative == 0) return;
                               o.receive(((relative & (relative - 1)) + root) % size, {data(tensor), bytes_of(tensor)});
                             },
                             [tensor, root](Operation& o) {
                               const Group& group = *o.call().group;
                               const int size = group.size(), relative = (group.rank - root + size) % size;
                               int bit = 1;
                               while (bit < size && (relative & bit) == 0) bit *= 2;
                               while ((bit /= 2) > 0)
                                 if (relative + bit < size)
                                   o.send((relative + bit + root) % size, {data(tensor), bytes_of(tensor)});
                             }});
}

Event PeerCommunicator::send(at::Tensor tensor, int to, Stream&) {
  check_other(*this, "send", "to", to);
  check_tensor(*this, "send", tensor);
  return operations_->start({group_, "send", sent_to_[static_cast<size_t>(to)]++, static_cast<int64_t>(tensor.nbytes()), to},
                            {[tensor, to](Operation& o) { o.send(to, {data(tensor), bytes_of(tensor)}); }});
}

Event PeerCommunicator::receive(at::Tensor tensor, int from, Stream&) {
  check_other(*this, "receive", "from", from);
  check_tensor(*this, "receive", tensor);
  return operations_->start(
      {group_, "receive", received_from_[static_cast<size_t>(from)]++, static_cast<int64_t>(tensor.nbytes()), from},
      {[tensor, from](Operation& o) { o.receive(from, {data(tensor), bytes_of(tensor)}); }});
}

void PeerCommunicator::barrier() {
  // In round k every rank tells the one 2^k after it, and hears from the one 2^k before.
  Stages rounds;
  for (int distance = 1; distance < size(); distance *= 2)
    rounds.emplace_back([distance](Operation& o) {
      const Group& group = *o.call().group;
      o.receive((group.rank - distance + group.size()) % group.size(), {});
      o.send((group.rank + distance) % group.size(), {});
    });
  operations_->start(next("barrier", 0), std::move(rounds)).wait();
}

void PeerCommunicator::progress() { operations_->progress(); }

}  // namespace partita
