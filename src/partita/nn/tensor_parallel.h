// The collectives of tensor parallelism inside a block (M. Shoeybi et al., "Megatron-LM: training multi-billion
// parameter language models using model parallelism", 2019), and of sequence parallelism with it (nn/split.h).
//
//   at::Tensor x = tensor.gather_rows(h, memory, rows);     // before a linear whose weight is split by rows
//   tensor.sum_rows(branch, partial);                       // after one whose weight is split by columns
//
// Both also in steps, between which matmuls of other rows run:
//
//   const TensorParallel::Gathering x = tensor.start_gather(h, memory, rows);
//   ...                                                     // multiplies h, this rank's own rows
//   tensor.wait(x);                                         // now x.rows holds all
//
// Sums are made in rank order and rounded once: with and without sequence parallelism the same bits.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/comm/communicator.h"
#include "partita/nn/split.h"

namespace partita {

class TensorParallel {
 public:
  // Both must outlive this object. `split`: of this rank in the group.
  TensorParallel(Communicator& group, Stream& compute, const TensorSplit& split)
      : group_(group), compute_(compute), split_(split) {}

  [[nodiscard]] const TensorSplit& split() const { return split_; }

  // All rows [rows, C] of x [stream rows, C]: x itself, or gathered into `memory`, which holds at least rows * C
  // elements of x's dtype.
  [[nodiscard]] at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& memory, int64_t rows) const;
  // The same, complete after wait(); until then x must not be overwritten.
  struct Gathering {
    at::Tensor rows;
    Event complete;
  };
  [[nodiscard]] Gathering start_gather(const at::Tensor& x, const at::Tensor& memory, int64_t rows) const;
  void wait(const Gathering& gathering) const { compute_.wait(gathering.complete); }

  // out [stream rows, C] = these rows of the sum over ranks of partial [rows, C]. If rows are not split, out is
  // partial.
  void sum_rows(const at::Tensor& out, const at::Tensor& partial) const;

  // all [ranks, n] <- own [n] of every rank.
  void gather(const at::Tensor& all, const at::Tensor& own) const;

 private:
  friend class RowSum;
  Communicator& group_;
  Stream& compute_;
  TensorSplit split_;
};

// sum_rows in steps.
//
//   RowSum sum(tensor, partial, received);
//   ...                                 // computes the other ranks' rows of `partial`: TensorSplit::pieces
//   sum.others_ready();                 // they are sent
//   ...                                 // computes this rank's own rows
//   sum.all_ready();
//   ...                                 // other work
//   sum.finish(out);
class RowSum {
 public:
  // partial [rows, C]; received: memory for as many elements, if rows are split. Both stay untouched until finish.
  RowSum(const TensorParallel& tensor, at::Tensor partial, at::Tensor received)
      : tensor_(&tensor), partial_(std::move(partial)), received_(std::move(received)) {}

  void others_ready();
  void all_ready();
  void finish(const at::Tensor& out);

 private:
  [[nodiscard]] bool splits() const { return tensor_->split().splits_rows(partial_.size(0)); }
  // Row `rank`: of that rank's part.
  [[nodiscard]] at::Tensor by_rank(const at::Tensor& memory) const;

  const TensorParallel* tensor_;
  at::Tensor partial_, received_;
  std::vector<Event> events_;
};

}  // namespace partita
