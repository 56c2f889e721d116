// The collectives of tensor parallelism inside a block (M. Shoeybi et al., "Megatron-LM: training multi-billion
// parameter language models using model parallelism", 2019), and of sequence parallelism with it (nn/split.h).
//
//   at::Tensor x = tensor.gather_rows(h, rows);             // before a linear whose weight is split by rows
//   tensor.sum_rows(branch, partial);                       // after one whose weight is split by columns
//
// Both also in steps, between which matmuls of other rows run:
//
//   const TensorParallel::Gathering x = tensor.start_gather(h, rows);
//   ...                                                     // multiplies h, this rank's own rows
//   tensor.wait(x);                                         // now x.rows holds all
//
// Sums are made in rank order and rounded once: with and without sequence parallelism the same bits.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "partita/base/dtype.h"
#include "partita/comm/communicator.h"
#include "partita/nn/split.h"

namespace partita {

class TensorParallel {
 public:
  // For rows of this width; the group and the stream must outlive this object. `split`: of this rank in the group.
  // Collective.
  TensorParallel(Communicator& group, Stream& compute, const TensorSplit& split, int64_t rows, int64_t width, DType,
                 at::Device);
  // Memory for what arrives from other ranks.
  [[nodiscard]] static int64_t bytes(const TensorSplit&, int64_t rows, int64_t width, DType);

  [[nodiscard]] const TensorSplit& split() const { return split_; }

  // All rows [rows, C] of x [stream rows, C]: x itself, or gathered into memory that the next gather overwrites.
  [[nodiscard]] at::Tensor gather_rows(const at::Tensor& x, int64_t rows) const;
  // The same in steps; until wait, x must not be overwritten.
  struct Gathering {
    at::Tensor own, rows;
    Event arrived;
  };
  [[nodiscard]] Gathering start_gather(const at::Tensor& x, int64_t rows) const;
  // Those of the other ranks are there.
  void wait_for_others(const Gathering& gathering) const { compute_.wait(gathering.arrived); }
  // All are there.
  void wait(const Gathering&) const;

  // out [stream rows, C] = these rows of the sum over ranks of partial [rows, C]. If rows are not split, out is
  // partial.
  void sum_rows(const at::Tensor& out, const at::Tensor& partial) const;

  // all [ranks, n] <- own [n] of every rank.
  void gather(const at::Tensor& all, const at::Tensor& own) const;
  // magnitudes [n] fp32, none negative <- their maximum over the ranks; NaN exceeds all.
  void largest(const at::Tensor& magnitudes) const;

 private:
  friend class RowSum;
  // `memory`, or where other shapes than that of training need more, memory of its own.
  [[nodiscard]] static at::Tensor room(const at::Tensor& memory, int64_t rows, const at::Tensor& like);
  Communicator& group_;
  Stream& compute_;
  TensorSplit split_;
  at::Tensor gathered_, received_;  // elements, shared with the other ranks; undefined: rows are not split
};

// sum_rows in steps.
//
//   RowSum sum(tensor, partial);
//   ...                                 // computes the other ranks' rows of `partial`: TensorSplit::pieces
//   sum.others_ready();                 // they are sent
//   ...                                 // computes this rank's own rows
//   sum.all_ready();
//   ...                                 // other work
//   sum.finish(out);
class RowSum {
 public:
  // partial [rows, C] stays untouched until finish. One sum at a time.
  RowSum(const TensorParallel& tensor, at::Tensor partial) : tensor_(&tensor), partial_(std::move(partial)) {}

  void others_ready();
  void all_ready();
  void finish(const at::Tensor& out);

 private:
  [[nodiscard]] bool splits() const { return tensor_->split().splits_rows(partial_.size(0)); }
  // [ranks, elements]: row `rank` of a matrix [rows, C] is that rank's part.
  [[nodiscard]] at::Tensor by_rank(const at::Tensor& rows) const;

  const TensorParallel* tensor_;
  at::Tensor partial_, received_;
  std::optional<Event> complete_;
};

}  // namespace partita
