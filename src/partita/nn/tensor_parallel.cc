#include "partita/nn/tensor_parallel.h"

#include "partita/base/error.h"

namespace partita {

at::Tensor TensorParallel::gather_rows(const at::Tensor& x, const at::Tensor& memory, int64_t rows) const {
  if (!split_.splits_rows(rows)) return x;
  const at::Tensor all = memory.view(-1).narrow(0, 0, rows * x.size(1));
  compute_.wait(group_.all_gather(all, x.view(-1), compute_));
  return all.view({rows, x.size(1)});
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

}  // namespace partita
