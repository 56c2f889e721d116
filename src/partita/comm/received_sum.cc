#include "partita/comm/received_sum.h"

#include <vector>

#include "partita/base/error.h"
#include "partita/comm/ordered_sum.h"
#ifdef PARTITA_CUDA
#include <c10/cuda/CUDAStream.h>

#include "partita/comm/cuda/ordered_sum.h"
#endif

namespace partita::internal {

void sum_received(const at::Tensor& out, const at::Tensor& received, const at::Tensor& own, int rank) {
  const int64_t ranks = received.size(0), n = own.numel();
  PARTITA_CHECK(received.dim() == 2 && received.size(1) == n && out.numel() == n && rank < ranks,
                "received {} x {}, own {}, out {}", ranks, received.size(1), n, out.numel());
  const c10::ScalarType to = out.scalar_type(), from = own.scalar_type();
#ifdef PARTITA_CUDA
  if (out.is_cuda())
    return reduce_rows_on_device(Reduce::sum, to, out.mutable_data_ptr(), from, received.const_data_ptr(),
                                 own.const_data_ptr(), rank, static_cast<int>(ranks), n,
                                 c10::cuda::getCurrentCUDAStream(out.device().index()).stream());
#endif
  std::vector<const void*> rows;
  for (int64_t r = 0; r < ranks; ++r) rows.push_back(r == rank ? own.const_data_ptr() : received[r].const_data_ptr());
  reduce_rows(Reduce::sum, to, out.mutable_data_ptr(), from, rows, n);
}

}  // namespace partita::internal
