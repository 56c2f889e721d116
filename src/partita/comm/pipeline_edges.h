// One communicator per direction between neighboring ranks of a pipeline, so that no message waits for another that
// goes the other way: NCCL runs what is called on one communicator in order, and a receive that waits for its sender
// would hold up the sends behind it (pytorch#172668).
//
//   PipelineEdges edges(world, mesh.layout().pipeline_group(world.rank()), device);
//   Event sent = edges.send(tensor, 1, stream);           // on rank 0
//   Event arrived = edges.receive(tensor, 0, stream);     // on rank 1
//
// All of them have passed a message when the constructor returns: libraries that connect at the first message deadlock
// where ranks first use them in different orders (Megatron-LM#5240).
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "partita/comm/world.h"

namespace partita {

class PipelineEdges {
 public:
  // `ranks`: of the job, ascending, in the order of the stages; the last one is the neighbor of the first. Collective.
  PipelineEdges(World& world, const std::vector<int>& ranks, c10::Device device = c10::kCPU,
                std::chrono::milliseconds timeout = std::chrono::minutes(10));
  // In the order of the constructor: the two ranks of an edge wait for each other.
  ~PipelineEdges();
  PipelineEdges(const PipelineEdges&) = delete;
  PipelineEdges& operator=(const PipelineEdges&) = delete;

  // Makes room for messages of up to this many bytes: see Communicator::reserve_messages. ring: also between the last
  // and the first rank. Returns the bytes of device memory that this takes. Collective.
  int64_t reserve(int64_t bytes, bool ring) const;

  // To, or from, a neighbor, given by its place in `ranks`. As those of Communicator, but never deferred: messages of
  // one direction arrive in order. Error: not a neighbor.
  [[nodiscard]] Event send(const at::Tensor&, int neighbor, Stream&) const;
  [[nodiscard]] Event receive(const at::Tensor&, int neighbor, Stream&) const;

 private:
  using Edges = std::map<int, Communicator*>;  // by neighbor
  struct Edge {
    std::unique_ptr<Communicator> pair;
    bool receives, closes_ring;
  };
  [[nodiscard]] static Communicator& edge(const Edges&, int neighbor);
  std::vector<Edge> in_order_;
  Edges to_, from_;
};

}  // namespace partita

namespace partita::internal {

// The neighboring pairs of `count` ranks in a ring, in an order in which each rank can meet its neighbors one after
// another: pairs of a round have no rank in common. Pure.
[[nodiscard]] std::vector<std::pair<int, int>> neighbor_rounds(int count);

}  // namespace partita::internal
