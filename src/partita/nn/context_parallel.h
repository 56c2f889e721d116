// Context parallelism: the ranks of a group have pieces of the same sequences (base/context_split.h). They meet in
// attention alone, where each rank gathers the keys and values of whole sequences (as in A. Grattafiori et al., "The
// Llama 3 herd of models", 2024), and gives the gradients of other ranks' keys and values back.
//
//   engine.step({take_pieces(batch, split)}, input);   // the same batch on every rank of the group
//   ContextParallel::Gathering keys = context.start_gather(qkv, heads, whole, by_rank);
//   ...                                                // they arrive while other gradients are computed
//   WholeKeys all = context.wait(keys);
//   ... attention_backward(..., all, d_whole) ...
//   context.sum(d_qkv, d_whole, heads, by_rank);
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/context_split.h"
#include "partita/comm/communicator.h"
#include "partita/nn/block.h"
#include "partita/ops/attention.h"

namespace partita {

// The pieces of each sample of a batch that a rank takes: its tokens, with their labels, positions and first keys, as
// in the whole batch. Error: a length that is not a multiple of 2 x split.ranks.
[[nodiscard]] Batch take_pieces(const Batch&, const ContextSplit&);

class ContextParallel {
 public:
  // Both must outlive this object.
  ContextParallel(Communicator& group, Stream& compute)
      : group_(group), compute_(compute), split_{.rank = group.rank(), .ranks = group.size()} {}

  [[nodiscard]] const ContextSplit& split() const { return split_; }

  // Keys and values of whole sequences, from qkv [samples, length, ...] of every rank. They will be in `whole`;
  // `by_rank` is overwritten, and must not be used in between. Each has space for ranks * samples * length * 2 *
  // kv_heads * head_width elements.
  struct Gathering {
    at::Tensor whole, by_rank;
    Event arrived;
  };
  [[nodiscard]] Gathering start_gather(const at::Tensor& qkv, const internal::Heads&, const at::Tensor& whole,
                                       const at::Tensor& by_rank) const;
  [[nodiscard]] internal::WholeKeys wait(const Gathering&) const;
  // k and v of d_qkv = the sum over ranks, in rank order, of what d_whole [samples, ranks * length, ...] has for this
  // rank's positions. d_whole and `by_rank` are overwritten.
  void sum(const at::Tensor& d_qkv, const at::Tensor& d_whole, const internal::Heads&, const at::Tensor& by_rank) const;

 private:
  Communicator& group_;
  Stream& compute_;
  ContextSplit split_;
};

}  // namespace partita
