#include "partita/nn/tensor_parallel.h"

#include "partita/base/error.h"
#include "partita/comm/received_sum.h"

namespace partita {

TensorParallel::Gathering TensorParallel::start_gather(const at::Tensor& x, const at::Tensor& memory,
                                                       int64_t rows) const {
  if (!split_.splits_rows(rows)) return {.rows = x, .complete = {}};
  const at::Tensor all = memory.view(-1).narrow(0, 0, rows * x.size(1));
  return {.rows = all.view({rows, x.size(1)}), .complete = group_.all_gather(all, x.view(-1), compute_)};
}

at::Tensor TensorParallel::gather_rows(const at::Tensor& x, const at::Tensor& memory, int64_t rows) const {
  const Gathering gathering = start_gather(x, memory, rows);
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

at::Tensor RowSum::by_rank(const at::Tensor& memory) const {
  return memory.view(-1).narrow(0, 0, partial_.numel()).view({tensor_->split_.ranks, -1});
}

void RowSum::others_ready() {
  if (!splits()) return;
  const at::Tensor sent = by_rank(partial_), received = by_rank(received_);
  const int ranks = tensor_->split_.ranks, rank = tensor_->split_.rank;
  for (int i = 1; i < ranks; ++i) {  // each with another peer at a time
    const int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
    events_.push_back(tensor_->group_.send(sent[to], to, tensor_->compute_));
    events_.push_back(tensor_->group_.receive(received[from], from, tensor_->compute_));
  }
  tensor_->group_.progress();  // posts them
}

void RowSum::all_ready() {
  if (!splits())
    events_.push_back(tensor_->group_.all_reduce(partial_, Reduce::sum, tensor_->compute_));
  else if (events_.empty())
    others_ready();
}

void RowSum::finish(const at::Tensor& out) {
  for (const Event& event : events_) tensor_->compute_.wait(event);
  if (splits())
    internal::sum_received(out.view(-1), by_rank(received_), by_rank(partial_)[tensor_->split_.rank],
                           tensor_->split_.rank);
  else
    PARTITA_CHECK(out.data_ptr() == partial_.data_ptr(), "a sum of all rows is made in place");
}

}  // namespace partita
