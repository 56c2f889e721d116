#include "partita/module/tensor_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr int64_t kMostTensors = 16, kMostDimensions = 8;
constexpr int64_t kFields = 3 + kMostDimensions, kHeader = 1 + kMostTensors * kFields;  // dtype, gradient, dimensions

constexpr std::array kTypes = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong,
                               at::kInt,   at::kByte,     at::kBool, at::kChar};

at::Tensor header_of(const std::vector<at::Tensor>& tensors) {
  if (std::ssize(tensors) > kMostTensors)
    fail("Pipeline: a part returns {} tensors, expected at most {}", tensors.size(), kMostTensors);
  at::Tensor header = at::zeros({kHeader}, at::kLong);
  auto* field = header.data_ptr<int64_t>();
  *field++ = std::ssize(tensors);
  for (const at::Tensor& t : tensors) {
    const auto type = std::ranges::find(kTypes, t.scalar_type());
    if (type == kTypes.end() || t.dim() > kMostDimensions)
      fail("Pipeline: a part returns a tensor of {} with {} dimensions, which stages cannot pass on",
           at::toString(t.scalar_type()), t.dim());
    field[0] = type - kTypes.begin();
    field[1] = t.requires_grad() ? 1 : 0;
    field[2] = t.dim();
    std::ranges::copy(t.sizes(), field + 3);
    field += kFields;
  }
  return header;
}

std::vector<at::Tensor> tensors_of(const at::Tensor& header, at::Device device) {
  const auto* field = header.const_data_ptr<int64_t>();
  std::vector<at::Tensor> tensors(static_cast<size_t>(*field++));
  for (at::Tensor& t : tensors) {
    t = at::empty(at::IntArrayRef(field + 3, static_cast<size_t>(field[2])),
                  at::TensorOptions(kTypes.at(static_cast<size_t>(field[0]))).device(device));
    t.requires_grad_(field[1] != 0);
    field += kFields;
  }
  return tensors;
}

// What communicators pass: of a dtype that they know.
at::Tensor message_of(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach();
  const bool known = plain.scalar_type() != at::kBool && plain.scalar_type() != at::kChar;
  return known ? plain : plain.view(at::kByte);
}

}  // namespace

void TensorMessages::send(const std::vector<at::Tensor>& tensors, int neighbor) {
  const at::Tensor header = header_of(tensors);
  sent_.emplace_back(header, edges_.send(header, neighbor, stream_));
  send_like(tensors, neighbor);
}

void TensorMessages::send_like(const std::vector<at::Tensor>& tensors, int neighbor) {
  std::erase_if(sent_, [](const auto& s) { return s.second.done(); });
  for (const at::Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    const at::Tensor message = message_of(t.contiguous());
    sent_.emplace_back(message, edges_.send(message, neighbor, stream_));
  }
}

TensorMessages::Arrival TensorMessages::receive(int neighbor) {
  at::Tensor header = at::empty({kHeader}, at::kLong);
  edges_.receive(header, neighbor, stream_).wait();
  Arrival arrival{.tensors = tensors_of(header, device_), .events = {}};
  receive_into(arrival, neighbor);
  return arrival;
}

TensorMessages::Arrival TensorMessages::receive_like(const std::vector<at::Tensor>& like, int neighbor) {
  Arrival arrival;
  for (const at::Tensor& t : like) arrival.tensors.push_back(at::empty(t.sizes(), t.options()));
  receive_into(arrival, neighbor);
  return arrival;
}

void TensorMessages::receive_into(Arrival& arrival, int neighbor) {
  for (const at::Tensor& t : arrival.tensors)
    if (t.numel() > 0) arrival.events.push_back(edges_.receive(message_of(t), neighbor, stream_));
}

std::vector<at::Tensor> TensorMessages::take(Arrival& arrival) {
  for (const Event& event : arrival.events) stream_.wait(event);
  return std::move(arrival.tensors);
}

void TensorMessages::finish() {
  for (const auto& [tensor, event] : sent_) stream_.wait(event);
  sent_.clear();
}

}  // namespace partita::internal
