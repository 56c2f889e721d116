#include "partita/module/shared_buffers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "partita/device/device_stream.h"

namespace partita::internal {

SharedBuffers::SharedBuffers(const std::vector<NamedParameter>& buffers, Communicator& ranks, at::Device device)
    : ranks_(ranks), stream_(make_stream(device, StreamUse::compute)) {
  for (const NamedParameter& buffer : buffers)
    if (buffer.tensor.numel() > 0) tensors_.push_back(buffer.tensor.detach());
  std::ranges::stable_sort(tensors_, std::greater<>(), [](const at::Tensor& t) { return t.element_size(); });
}

void SharedBuffers::share() {
  if (tensors_.empty() || ranks_.size() == 1) return;
  const at::NoGradGuard none;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors_) parts.push_back(tensor.contiguous().view({-1}).view(at::kByte));
  const at::Tensor bytes = at::cat(parts);
  stream_->wait(ranks_.broadcast(bytes, 0, *stream_));
  if (ranks_.rank() == 0) return;
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors_) {
    const auto size = static_cast<int64_t>(tensor.nbytes());
    tensor.copy_(bytes.narrow(0, begin, size).view(tensor.scalar_type()).view(tensor.sizes()));
    begin += size;
  }
}

}  // namespace partita::internal
