// Lists of tensors as messages between neighboring stages of a pipeline. What is received has the number of tensors,
// dtypes and shapes of what was sent, and requires gradients where it did.
//
//   TensorMessages messages(edges, stream, device);
//   messages.send({x, mask}, 1);                                        // on rank 0 of the pipeline
//   TensorMessages::Arrival arrival = messages.receive(0);              // on rank 1
//   const std::vector<at::Tensor> in = messages.take(arrival);
//   messages.finish();
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "partita/comm/pipeline_edges.h"
#include "partita/device/stream.h"

namespace partita::internal {

class TensorMessages {
 public:
  struct Arrival {
    std::vector<at::Tensor> tensors;
    std::vector<Event> events;
  };
  // All must outlive this object.
  TensorMessages(const PipelineEdges& edges, Stream& stream, at::Device device)
      : edges_(edges), stream_(stream), device_(device) {}

  // Error: more tensors, or dimensions, than a message may have; a dtype that messages do not have.
  void send(const std::vector<at::Tensor>&, int neighbor);
  // Waits for the shapes only.
  [[nodiscard]] Arrival receive(int neighbor);
  // Of tensors that are like these.
  [[nodiscard]] Arrival receive_like(const std::vector<at::Tensor>&, int neighbor);
  // Waits for the tensors.
  [[nodiscard]] std::vector<at::Tensor> take(Arrival&);
  void send_like(const std::vector<at::Tensor>&, int neighbor);  // without shapes: for receive_like
  // Waits until all that was sent has arrived.
  void finish();

 private:
  void receive_into(Arrival&, int neighbor);
  const PipelineEdges& edges_;
  Stream& stream_;
  at::Device device_;
  std::vector<std::pair<at::Tensor, Event>> sent_;
};

}  // namespace partita::internal
