#include "partita/nn/linear.h"

#include <algorithm>
#include <cmath>

#include "partita/nn/layer.h"
#include "partita/ops/activation.h"
#include "partita/ops/matmul.h"

namespace partita {
namespace {

enum Scratch : uint8_t { kLow, kWide };  // behind the layer's own

// The first elements of a temporary as [rows, columns].
at::Tensor shaped(const at::Tensor& memory, int64_t rows, int64_t columns) {
  return memory.narrow(0, 0, rows * columns).view({rows, columns});
}

}  // namespace

Linear::Linear(LinearSpec spec, int64_t layer, const LoraOptions& lora, LinearPlaces& next)
    : spec_(std::move(spec)), layer_(layer), lora_(lora), scratch_(next.scratch) {
  if (lora.rank == 0) return;
  for (const LinearPart& part : spec_.parts) {
    if (std::ranges::find(lora.parts, part.name) == lora.parts.end()) continue;
    adapters_.push_back({.part = part,
                         .a = next.parameter,
                         .b = next.parameter + 1,
                         .slot = next.slot,
                         .site = adapter_dropout_site(layer, next.adapter)});
    next.parameter += 2;
    ++next.slot;
    ++next.adapter;
  }
}

void Linear::add_parameters(std::vector<ParameterSpec>& list) const {
  for (const Adapter& adapter : adapters_) {
    const std::string name = layer_parameter(layer_, adapter.part.name);
    // The variance of the uniform(-1/sqrt(in), 1/sqrt(in)) with which the authors begin; B is zero, so that training
    // begins at the base model.
    const Init init{.mean = 0, .std = 1 / std::sqrt(3.0 * static_cast<double>(spec_.in))};
    list.push_back(
        {.name = name + ".lora_a", .shape = {lora_.rank, spec_.in}, .init = init, .decay = true, .adapter = true});
    list.push_back({.name = name + ".lora_b",
                    .shape = {adapter.part.rows, lora_.rank},
                    .init = {.mean = 0, .std = 0},
                    .decay = true,
                    .adapter = true});
  }
}

void Linear::add_saved(const Shape& shape, DType dtype, std::vector<BufferSpec>& list) const {
  for (size_t i = 0; i < adapters_.size(); ++i)
    list.push_back({"adapter", {shape.rows(), lora_.rank}, dtype, Keep::attention});
}

at::Tensor Linear::dropped(const Adapter& adapter, at::Tensor x, Context& context) const {
  const Dropout dropout = dropout_at(lora_.dropout, adapter.site, context);
  if (dropout.p == 0) return x;
  const at::Tensor out = shaped(context.scratch[static_cast<size_t>(scratch_ + kWide)], x.size(0), x.size(1));
  dropout_forward(out, x, dropout);
  return out;
}

void Linear::forward(Weights w, at::Tensor y, at::Tensor x, Context& context, Saved& saved) const {
  const auto parameter = [&](int place) { return w[static_cast<size_t>(place)]; };
  linear_forward(y, x, parameter(spec_.weight), spec_.bias >= 0 ? parameter(spec_.bias) : at::Tensor());
  recompute(w, x, context, saved);
  for (const Adapter& adapter : adapters_)
    linear_add(y.narrow(1, adapter.part.begin, adapter.part.rows), saved[adapter.slot], parameter(adapter.b),
               lora_.scale);
}

void Linear::recompute(Weights w, at::Tensor x, Context& context, Saved& saved) const {
  for (const Adapter& adapter : adapters_)
    linear_forward(saved[adapter.slot], dropped(adapter, x, context), w[static_cast<size_t>(adapter.a)]);
}

void Linear::backward(Weights w, at::Tensor d_x, at::Tensor d_y, at::Tensor x, Context& context, Saved& saved,
                      Grads& grads) const {
  if (spec_.bias >= 0) bias_backward(d_y, grads.target(spec_.bias));
  grads.matmul(spec_.weight, d_y, x);
  linear_backward_input(d_x, d_y, w[static_cast<size_t>(spec_.weight)]);
  const int64_t rows = x.size(0);
  for (const Adapter& adapter : adapters_) {
    const at::Tensor &a = w[static_cast<size_t>(adapter.a)], &b = w[static_cast<size_t>(adapter.b)];
    const at::Tensor d_part = d_y.narrow(1, adapter.part.begin, adapter.part.rows);
    const at::Tensor d_low = shaped(context.scratch[static_cast<size_t>(scratch_ + kLow)], rows, lora_.rank);
    grads.matmul(adapter.b, d_part, saved[adapter.slot], lora_.scale);
    linear_backward_input(d_low, d_part, b, lora_.scale);
    grads.matmul(adapter.a, d_low, dropped(adapter, x, context));
    const Dropout dropout = dropout_at(lora_.dropout, adapter.site, context);
    if (dropout.p == 0) {
      linear_backward_input(d_x, d_low, a, 1, true);
    } else {
      const at::Tensor d_dropped = shaped(context.scratch[static_cast<size_t>(scratch_ + kWide)], rows, x.size(1));
      linear_backward_input(d_dropped, d_low, a);
      dropout_add(d_x, d_dropped, dropout);
    }
  }
}

void add_linear_scratch(const LoraOptions& lora, const Shape& shape, int64_t widest, DType dtype,
                        std::vector<BufferSpec>& list) {
  if (lora.rank == 0) return;
  list.push_back({"low", {shape.rows() * lora.rank}, dtype});
  list.push_back({"wide", {lora.dropout > 0 ? shape.rows() * widest : 0}, dtype});
}

}  // namespace partita
