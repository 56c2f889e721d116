#include "partita/engine/open_gradients.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

bool is_kept(const at::Tensor& t, const Saved& saved) {
  const auto* begin = static_cast<const std::byte*>(t.const_data_ptr());
  for (size_t i = 0; i < saved.slots.size(); ++i) {
    const auto* slot = static_cast<const std::byte*>(saved.slots[i].const_data_ptr());
    if (saved.kept[i] && begin >= slot && begin < slot + saved.slots[i].nbytes()) return true;
  }
  return false;
}

}  // namespace

class OpenGradients::Collected final : public Grads {
 public:
  Collected(Grads& now, Products& products, const Saved* stays) : now_(now), products_(products), stays_(stays) {}

  [[nodiscard]] bool trains(int parameter) const override { return now_.trains(parameter); }
  Target target(int parameter) override { return now_.target(parameter); }
  void matmul(int parameter, at::Tensor d_y, at::Tensor x, float scale) override {
    if (now_.trains(parameter)) products_.list.push_back({parameter, hold(d_y), hold(x), scale});
  }

 private:
  [[nodiscard]] at::Tensor hold(const at::Tensor& t) {
    if (stays_ != nullptr && is_kept(t, *stays_)) return t;
    const auto bytes = static_cast<int64_t>(t.numel() * t.element_size());
    PARTITA_CHECK(products_.used + bytes <= products_.memory.numel(),
                  "operands of weight gradients take more than {} bytes, which Block::operands declares",
                  products_.memory.numel());
    at::Tensor copy = products_.memory.narrow(0, products_.used, bytes).view(t.scalar_type()).view(t.sizes());
    products_.used += (bytes + 63) / 64 * 64;  // as bytes_of aligns them
    return copy.copy_(t);
  }

  Grads& now_;
  Products& products_;
  const Saved* stays_;
};

OpenGradients::OpenGradients(std::span<const int64_t> bytes, int blocks, at::Device device) : blocks_(blocks) {
  for (const int64_t count : bytes)
    products_.push_back({.memory = at::empty({count}, at::TensorOptions(at::kByte).device(device)), .list = {}});
}

std::unique_ptr<Grads> OpenGradients::collect(Grads& now, int set, int block, const Saved* stays) {
  Products& own = products(set, block);
  PARTITA_CHECK(own.list.empty(), "block {} has open weight gradients of another micro-batch", block);
  return std::make_unique<Collected>(now, own, stays);
}

void OpenGradients::compute(int set, int block, Grads& now) {
  Products& own = products(set, block);
  for (Product& p : std::exchange(own.list, {})) now.matmul(p.parameter, p.d_y, p.x, p.scale);
  own.used = 0;
}

int64_t OpenGradients::bytes() const {
  int64_t total = 0;
  for (const Products& p : products_) total += p.memory.numel();
  return total;
}

}  // namespace partita::internal
