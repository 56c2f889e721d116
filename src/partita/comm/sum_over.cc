#include "partita/comm/sum_over.h"

#include <ATen/ops/full.h>

namespace partita {

double sum_over(Communicator& group, double value) {
  const at::Tensor sum = at::full({1}, value, at::kDouble);
  CpuStream stream;
  group.all_reduce(sum, Reduce::sum, stream).wait();
  return *sum.const_data_ptr<double>();
}

}  // namespace partita
