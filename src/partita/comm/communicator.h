// Collectives over a group of ranks.
//
//   Event sent = dp.reduce_scatter(slice, gradients, stream);
//   ...                                     // other work; dp.progress() now and then drives pending transfers
//   stream.wait(sent);                      // now slice may be read, gradients overwritten
//
// Contract of every call:
// * Every rank of the group makes the same calls in the same order with the same sizes and dtypes.
// * Tensors must be contiguous, and stay alive and untouched until the returned Event has been waited for (every Event
//   itself: waiting for a later one is not enough). The collective starts after the work already on `stream`.
// * Sums are computed in rank order, half precision in fp32, and rounded once: the same bits on all ranks in all runs.
// * dtypes: fp32, bf16, fp16, fp64, int32, int64, uint8. No averaging: callers scale.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "partita/device/stream.h"

namespace partita {

enum class Reduce : uint8_t { sum, max };

class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;  // "dp", for messages

  // full [size * n] <- slice [n] of every rank. `slice` may be this rank's part of full, at rank * n.
  [[nodiscard]] virtual Event all_gather(at::Tensor full, at::Tensor slice, Stream&) = 0;
  // out [size, n]: row r comes from rank r, from row rank() of its `in` [size, n].
  [[nodiscard]] virtual Event all_to_all(at::Tensor out, at::Tensor in, Stream&) = 0;
  // slice [n] <- part rank() of the sum over ranks of their full [size * n]. `slice` may have a wider dtype than `full`
  // (fp32 from bf16), avoiding any rounding. `slice` must not overlap `full`.
  [[nodiscard]] virtual Event reduce_scatter(at::Tensor slice, at::Tensor full, Stream&) = 0;
  [[nodiscard]] virtual Event all_reduce(at::Tensor, Reduce, Stream&) = 0;  // in place
  [[nodiscard]] virtual Event broadcast(at::Tensor, int root, Stream&) = 0;
  // Point to point; messages between two ranks arrive in order. `to`, `from`: ranks of this group.
  [[nodiscard]] virtual Event send(at::Tensor, int to, Stream&) = 0;
  [[nodiscard]] virtual Event receive(at::Tensor, int from, Stream&) = 0;
  // row r of out [size, n] <- sent[rank()] [n] of rank r; this rank's own row and tensor are not touched.
  [[nodiscard]] virtual Event exchange(at::Tensor out, const std::vector<at::Tensor>& sent, Stream&) = 0;
  // Memory [bytes] of uint8, for the `out` of exchange, the `full` of all_gather and the tensor of all_reduce, at the
  // same place on all ranks: GPUs of one host then copy into it while kernels run. Valid as long as the communicator;
  // given out again when no tensor refers to it, which has to be at the same call on all ranks. Collective.
  [[nodiscard]] virtual at::Tensor shared_memory(int64_t bytes, at::Device) = 0;
  // Of a group of two: makes room for messages of up to this many bytes, so that GPUs of one host copy them while
  // kernels run, and send does not wait for receive. Returns the bytes of device memory that this takes. Collective.
  virtual int64_t reserve_messages(int64_t bytes, bool receives) = 0;
  // Returns when every rank has called it.
  virtual void barrier() = 0;
  // Posts deferred messages; CPU: drives pending transfers. Call between GEMMs and between blocks. Cheap when nothing
  // is pending.
  virtual void progress() {}
};

// The strings of all ranks, in rank order. For startup and checkpoints, not for the hot path.
[[nodiscard]] std::vector<std::string> gather_strings(Communicator&, const std::string& mine);

// Runs every collective on small inputs with known results. Error: names the collective and element.
void self_check(Communicator&);
// The same with tensors on a device, created on its current stream, which must be `stream`.
void self_check(Communicator&, at::Device, Stream& stream);

}  // namespace partita
