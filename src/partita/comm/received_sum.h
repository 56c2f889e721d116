// The sum of what the ranks of a group sent, for code that exchanges the parts itself.
//
//   sum_received(out, received, own, comm.rank());      // the bits of Communicator::reduce_scatter
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// out [n] = the sum, in rank order, of row r of received [ranks, n] for every other rank r, and own [n] for this one.
// Half precision is added in fp32 and rounded once. On a device: on the current stream. `out` may be `own`.
void sum_received(const at::Tensor& out, const at::Tensor& received, const at::Tensor& own, int rank);

}  // namespace partita::internal
