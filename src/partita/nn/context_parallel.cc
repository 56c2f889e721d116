#include "partita/nn/context_parallel.h"

#include <ATen/ops/cat.h>

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

// Calls f(piece in sequence order, the same piece in rank order) for each piece of whole [samples, ranks * length, C]
// and by_rank [ranks, samples, length, C].
template <class F>
void each_piece(const at::Tensor& whole, const at::Tensor& by_rank, const ContextSplit& split, F f) {
  const int64_t run = by_rank.size(2) / 2;
  for (int rank = 0; rank < split.ranks; ++rank)
    for (int part = 0; const int piece : split.pieces(rank))
      f(whole.narrow(1, piece * run, run), by_rank[rank].narrow(1, run * part++, run));
}

// The keys and values of qkv [samples, length, ...].
at::Tensor keys_values_of(const at::Tensor& qkv, const Heads& heads) {
  return qkv.narrow(2, heads.heads * heads.head_width, 2 * heads.kv_heads * heads.head_width);
}

// `memory` as keys and values of all ranks, [ranks, samples, length, C].
at::Tensor in_rank_order(const at::Tensor& memory, int ranks, const at::Tensor& own) {
  return memory.view(-1).narrow(0, 0, ranks * own.numel()).view({ranks, own.size(0), own.size(1), own.size(2)});
}

// The same in sequence order, [samples, ranks * length, C].
at::Tensor in_sequence_order(const at::Tensor& memory, int ranks, const at::Tensor& own) {
  return memory.view(-1).narrow(0, 0, ranks * own.numel()).view({own.size(0), ranks * own.size(1), own.size(2)});
}

}  // namespace

Batch take_pieces(const Batch& batch, const ContextSplit& split) {
  if (!split.cuts()) return batch;
  const int64_t length = batch.shape().length, parts = 2 * split.ranks;
  if (length % parts != 0)
    fail("a batch with {} tokens a sample over {} context-parallel ranks: use a multiple of {}, two pieces for each",
         length, split.ranks, parts);
  const auto cut = [&](const at::Tensor& all) {
    if (!all.defined()) return all;
    const auto [first, second] = split.pieces(split.rank);
    const int64_t run = length / parts;
    return at::cat({all.narrow(1, first * run, run), all.narrow(1, second * run, run)}, 1);
  };
  return {.tokens = cut(batch.tokens),
          .labels = cut(batch.labels),
          .positions = cut(batch.positions),
          .samples = batch.samples,
          .first_keys = cut(batch.first_keys)};
}

ContextParallel::Gathering ContextParallel::start_gather(const at::Tensor& qkv, const Heads& heads,
                                                         const at::Tensor& whole, const at::Tensor& by_rank) const {
  const at::Tensor own = keys_values_of(qkv, heads), all = in_rank_order(by_rank, split_.ranks, own);
  all[split_.rank].copy_(own);
  return {.whole = in_sequence_order(whole, split_.ranks, own),
          .by_rank = all,
          .arrived = group_.all_gather(all.view(-1), all[split_.rank].view(-1), compute_)};
}

WholeKeys ContextParallel::wait(const Gathering& gathering) const {
  compute_.wait(gathering.arrived);
  each_piece(gathering.whole, gathering.by_rank, split_,
             [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); });
  return {.keys_values = gathering.whole, .split = split_};
}

void ContextParallel::sum(const at::Tensor& d_qkv, const at::Tensor& d_whole, const Heads& heads,
                          const at::Tensor& by_rank) const {
  const at::Tensor own = keys_values_of(d_qkv, heads), all = in_rank_order(by_rank, split_.ranks, own);
  each_piece(d_whole, all, split_, [](const at::Tensor& from, const at::Tensor& to) { to.copy_(from); });
  const at::Tensor slice = d_whole.view(-1).narrow(0, 0, own.numel());
  compute_.wait(group_.reduce_scatter(slice, all.view(-1), compute_));
  own.copy_(slice.view(own.sizes()));
}

}  // namespace partita
