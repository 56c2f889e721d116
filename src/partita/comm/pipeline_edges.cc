#include "partita/comm/pipeline_edges.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/comm/device_communicator.h"
#include "partita/device/device_stream.h"

namespace partita {
using namespace internal;

PipelineEdges::PipelineEdges(World& world, const std::vector<int>& ranks, c10::Device device,
                             std::chrono::milliseconds timeout) {
  const auto connect = [&](int from, int to) {
    const int sender = ranks[static_cast<size_t>(from)], receiver = ranks[static_cast<size_t>(to)];
    if (world.rank() != sender && world.rank() != receiver) return;
    const bool sends = world.rank() == sender;
    auto edge = on_device(
        world.group(fmt::format("pp {}>{}", from, to), {std::min(sender, receiver), std::max(sender, receiver)}),
        device, timeout);
    const at::Tensor first = at::zeros({1}, at::TensorOptions(at::kByte).device(device));
    const auto stream = make_stream(device, StreamUse::compute);
    const int other = 1 - edge->rank();
    (sends ? edge->send(first, other, *stream) : edge->receive(first, other, *stream)).wait();
    (sends ? to_[to] : from_[from]) = edge.get();
    in_order_.push_back({.pair = std::move(edge), .receives = !sends, .closes_ring = std::abs(from - to) > 1});
  };
  for (const auto& [a, b] : neighbor_rounds(static_cast<int>(ranks.size()))) {
    connect(a, b);
    connect(b, a);
  }
}

PipelineEdges::~PipelineEdges() {
  for (Edge& edge : in_order_) edge.pair.reset();
}

int64_t PipelineEdges::reserve(int64_t bytes, bool ring) const {
  int64_t taken = 0;
  for (const Edge& edge : in_order_)
    if (ring || !edge.closes_ring) taken += edge.pair->reserve_messages(bytes, edge.receives);
  return taken;
}

Communicator& PipelineEdges::edge(const Edges& edges, int neighbor) {
  const auto found = edges.find(neighbor);
  PARTITA_CHECK(found != edges.end(), "pipeline rank {} is not a neighbor", neighbor);
  return *found->second;
}

Event PipelineEdges::send(const at::Tensor& tensor, int neighbor, Stream& stream) const {
  Communicator& to = edge(to_, neighbor);
  const Event sent = to.send(tensor, 1 - to.rank(), stream);
  to.progress();  // posts it
  return sent;
}

Event PipelineEdges::receive(const at::Tensor& tensor, int neighbor, Stream& stream) const {
  Communicator& from = edge(from_, neighbor);
  const Event arrived = from.receive(tensor, 1 - from.rank(), stream);
  from.progress();
  return arrived;
}

}  // namespace partita

namespace partita::internal {

std::vector<std::pair<int, int>> neighbor_rounds(int count) {
  std::vector<std::pair<int, int>> pairs;
  for (const int parity : {0, 1})
    for (int i = parity; i + 1 < count; i += 2) pairs.emplace_back(i, i + 1);
  if (count > 2) pairs.emplace_back(0, count - 1);
  return pairs;
}

}  // namespace partita::internal
