// What pipeline stages pass to each other: residuals and their gradients, in buffers that wait to be sent or used.
//
//   handover.read(action)                                   // input of a forward, or gradient for a backward
//   handover.write(action, sum, branch)                     // what the pass leaves for a neighbor
//   handover.transfer(action)                               // a message
//   handover.finish()                                       // at the end of the list
//
// Messages are in the order of the actions. They overlap with the passes: a pass waits for what it reads, and a buffer
// is written again when it has been sent. pipeline/messages.h places them such that this neither deadlocks nor needs
// tags.
#pragma once
#include <ATen/core/Tensor.h>

#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "partita/comm/pipeline_edges.h"
#include "partita/device/stream.h"
#include "partita/engine/pipeline_stage.h"
#include "partita/nn/block.h"

namespace partita::internal {

// Whether a pass reads from, and writes to, a neighboring stage; the neighbor may be on the same rank. Pure.
struct HandoverUse {
  bool reads = false, writes = false;
  int local_chunk = -1;  // of the same rank, which reads what is written; -1: it is sent
};
[[nodiscard]] HandoverUse handover_use(const Action&, const StagePlacement&, int rank);

class Handover {
 public:
  // Of residuals [rows, width]. The edges and the stream must outlive this object. check: each message is followed by a
  // stamp that says which one it is; read fails if another was expected.
  Handover(const PipelineStage&, int buffers, int64_t rows, int64_t width, DType, at::Device, const PipelineEdges&,
           Stream& compute, bool check = false);

  // The two parts of what the pass reads, which are valid until release; undefined: it reads nothing.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> read(const Action&);
  // Call when the pass has read it, before write.
  void release(const Action&);
  // Keeps a copy of what the pass leaves for its neighbor, if there is one. An undefined part is zero.
  void write(const Action&, const at::Tensor& sum, const at::Tensor& branch);
  void transfer(const Action&);
  void finish();

  // Of the buffers, of the room for messages between GPUs of one host, and of stamps.
  [[nodiscard]] static int64_t bytes(int buffers, const PipelineStage&, int64_t rows, int64_t width, DType, at::Device,
                                     bool check);
  [[nodiscard]] int64_t bytes() const {
    return static_cast<int64_t>(memory_.nbytes()) + room_bytes_ +
           (stamps_.defined() ? static_cast<int64_t>(stamps_.nbytes()) : 0);
  }

 private:
  using Key = std::tuple<Pass, bool, int, int>;  // of a pass; to be sent; chunk, micro-batch
  [[nodiscard]] int acquire(const Key&);
  [[nodiscard]] at::Tensor buffer(int index) const { return memory_[index]; }
  // Both parts of a residual, and one or both of a gradient.
  [[nodiscard]] at::Tensor message(Pass, int index) const;
  void free(const Key&);
  void wait(int index);
  // Of a chunk's output, or of the gradient of its input: pass, stage that made it, micro-batch.
  [[nodiscard]] at::Tensor stamp(const Action&, bool received) const;

  PipelineStage stage_;
  StagePlacement placement_;
  const PipelineEdges& edges_;
  Stream& compute_;
  at::Tensor memory_;                         // [buffer, 2, rows, width]
  int64_t room_bytes_;                        // for messages
  at::Tensor stamps_;                         // [buffer, 3] int64; undefined: not checked
  std::vector<std::vector<Event>> messages_;  // [buffer]: the last ones from or into it
  std::deque<int> unused_;                    // the longest unused first: the most likely to have been sent
  std::map<Key, int> held_;
};

}  // namespace partita::internal
