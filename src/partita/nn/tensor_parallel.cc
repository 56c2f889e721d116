#include "partita/nn/tensor_parallel.h"

#include <ATen/ops/empty.h>

#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/comm/received_sum.h"
#include "partita/device/scalar_type.h"

namespace partita {

TensorParallel::TensorParallel(Communicator& group, Stream& compute, const TensorSplit& split, int64_t rows,
                               int64_t width, DType dtype, at::Device device)
    : group_(group), compute_(compute), split_(split) {
  if (!split.splits_rows(rows)) return;
  const at::Tensor memory =
      group.shared_memory(bytes(split, rows, width, dtype), device).view(internal::scalar_type(dtype));
  gathered_ = memory.narrow(0, 0, rows * width);
  received_ = memory.narrow(0, rows * width, rows * width);
}

int64_t TensorParallel::bytes(const TensorSplit& split, int64_t rows, int64_t width, DType dtype) {
  return split.splits_rows(rows) ? 2 * rows * width * size_of(dtype) : 0;
}

at::Tensor TensorParallel::room(const at::Tensor& memory, int64_t rows, const at::Tensor& like) {
  const int64_t count = rows * like.size(1);
  if (!memory.defined() || memory.numel() < count || memory.scalar_type() != like.scalar_type())
    return at::empty({rows, like.size(1)}, like.options());
  return memory.narrow(0, 0, count).view({rows, like.size(1)});
}

TensorParallel::Gathering TensorParallel::start_gather(const at::Tensor& x, int64_t rows) const {
  if (!split_.splits_rows(rows)) return {.own = x, .rows = x, .arrived = {}};
  const at::Tensor all = room(gathered_, rows, x);
  return {.own = x,
          .rows = all,
          .arrived = group_.exchange(all.view({split_.ranks, -1}),
                                     std::vector<at::Tensor>(static_cast<size_t>(split_.ranks), x), compute_)};
}

void TensorParallel::wait(const Gathering& gathering) const {
  const at::Tensor &own = gathering.own, &all = gathering.rows;
  if (all.is_same(own)) return;
  all.narrow(0, split_.first_row(all.size(0)), own.size(0)).copy_(own);
  wait_for_others(gathering);
}

at::Tensor TensorParallel::gather_rows(const at::Tensor& x, int64_t rows) const {
  const Gathering gathering = start_gather(x, rows);
  wait(gathering);
  return gathering.rows;
}

void TensorParallel::sum_rows(const at::Tensor& out, const at::Tensor& partial) const {
  if (split_.splits_rows(partial.size(0))) {
    compute_.wait(group_.reduce_scatter(out.view(-1), partial.view(-1), compute_));
  } else {
    PARTITA_CHECK(out.is_same(partial) || out.data_ptr() == partial.data_ptr(), "a sum of all rows is made in place");
    compute_.wait(group_.all_reduce(partial, Reduce::sum, compute_));
  }
}

void TensorParallel::gather(const at::Tensor& all, const at::Tensor& own) const {
  compute_.wait(group_.all_gather(all.view(-1), own.view(-1), compute_));
}

void TensorParallel::largest(const at::Tensor& magnitudes) const {
  // Magnitudes sort like their bits, NaN too, which libraries' maxima of floats may drop.
  compute_.wait(group_.all_reduce(magnitudes.view(at::kInt), Reduce::max, compute_));
}

at::Tensor RowSum::by_rank(const at::Tensor& rows) const { return rows.view({tensor_->split_.ranks, -1}); }

void RowSum::others_ready() {
  if (!splits()) return;
  received_ = TensorParallel::room(tensor_->received_, partial_.size(0), partial_);
  std::vector<at::Tensor> sent = by_rank(partial_).unbind();
  sent[static_cast<size_t>(tensor_->split_.rank)] = at::Tensor();
  complete_ = tensor_->group_.exchange(by_rank(received_), sent, tensor_->compute_);
}

void RowSum::all_ready() {
  if (!splits())
    complete_ = tensor_->group_.all_reduce(partial_, Reduce::sum, tensor_->compute_);
  else if (!complete_)
    others_ready();
}

void RowSum::finish(const at::Tensor& out) {
  tensor_->compute_.wait(*complete_);
  const int rank = tensor_->split_.rank;
  if (splits())
    internal::sum_received(out.view(-1), by_rank(received_), by_rank(partial_)[rank], rank);
  else
    PARTITA_CHECK(out.data_ptr() == partial_.data_ptr(), "a sum of all rows is made in place");
}

}  // namespace partita
