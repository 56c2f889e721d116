// The collectives of tensor parallelism inside a block (M. Shoeybi et al., "Megatron-LM: training multi-billion
// parameter language models using model parallelism", 2019), and of sequence parallelism with it (nn/split.h).
//
//   at::Tensor x = tensor.gather_rows(h, memory, rows);     // before a linear whose weight is split by rows
//   tensor.sum_rows(branch, partial);                       // after one whose weight is split by columns
//
// Sums are made in rank order and rounded once: with and without sequence parallelism the same bits.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/comm/communicator.h"
#include "partita/nn/split.h"

namespace partita {

class TensorParallel {
 public:
  // Both must outlive this object.
  TensorParallel(Communicator& group, Stream& compute, bool sequence)
      : group_(group), compute_(compute), split_{.rank = group.rank(), .ranks = group.size(), .sequence = sequence} {}

  [[nodiscard]] const TensorSplit& split() const { return split_; }

  // All rows [rows, C] of x [stream rows, C]: x itself, or gathered into `memory`, which holds at least rows * C
  // elements of x's dtype.
  [[nodiscard]] at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& memory, int64_t rows) const;
  // out [stream rows, C] = these rows of the sum over ranks of partial [rows, C]. If rows are not split, out is
  // partial.
  void sum_rows(const at::Tensor& out, const at::Tensor& partial) const;
  // all [ranks, n] <- own [n] of every rank.
  void gather(const at::Tensor& all, const at::Tensor& own) const;

 private:
  Communicator& group_;
  Stream& compute_;
  TensorSplit split_;
};

}  // namespace partita
