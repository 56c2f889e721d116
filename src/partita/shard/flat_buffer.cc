#include "partita/shard/flat_buffer.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "partita/device/scalar_type.h"

namespace partita::internal {

at::Tensor flat_zeros(int64_t count, DType dtype, at::Device device) {
  return at::zeros({count}, at::TensorOptions(scalar_type(dtype)).device(device));
}

at::Tensor shared_zeros(Communicator& group, int64_t count, DType dtype, at::Device device) {
  return group.shared_memory(count * size_of(dtype), device).view(scalar_type(dtype)).zero_();
}

std::vector<at::Tensor> parameter_views(const Layout& layout, const at::Tensor& buffer) {
  std::vector<at::Tensor> views;
  for (size_t p = 0; p < layout.parameters.size(); ++p)
    views.push_back(
        buffer.narrow(0, layout.begin[p], layout.parameters[p].local_count()).view(layout.parameters[p].local_shape()));
  return views;
}

void zero_padding(const Layout& layout, const at::Tensor& buffer) {
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const int64_t end = layout.begin[p] + layout.parameters[p].local_count();
    const int64_t next = p + 1 < layout.parameters.size() ? layout.begin[p + 1] : layout.count;
    if (end < next) buffer.narrow(0, end, next - end).zero_();
  }
}

void poison(const at::Tensor& buffer) { buffer.fill_(std::nan("")); }

}  // namespace partita::internal
