#include "partita/nn/linear.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "partita/nn/layer.h"
#include "partita/ops/activation.h"
#include "partita/ops/fp8.h"
#include "partita/ops/matmul.h"

namespace partita::internal {
namespace {

// After the layer's own scratch: buffers of adapters, if there are any; then those of fp8.
enum Scratch : uint8_t { kLow, kWide, kAdapterScratch };

// The first elements of a temporary as [rows, columns].
at::Tensor shaped(const at::Tensor& memory, int64_t rows, int64_t columns) {
  return memory.narrow(0, 0, rows * columns).view({rows, columns});
}

}  // namespace

Linear::Linear(LinearSpec spec, int64_t layer, const LoraOptions& lora, LinearIndices& next)
    : spec_(std::move(spec)), layer_(layer), lora_(lora), scratch_(next.scratch) {
  const int linear = next.linear++;
  if (next.fp8)
    fp8_.emplace(spec_.in, out(), spec_.measured,
                 Fp8Linear::Indices{.scratch = scratch_ + (lora.rank > 0 ? kAdapterScratch : 0),
                                    .scales = next.scales,
                                    .linear = linear,
                                    .transposed = next.slot++});
  if (lora.rank == 0) return;
  const auto is_adapted = [&](const char* name) { return std::ranges::find(lora.parts, name) != lora.parts.end(); };
  const auto whole = [&] { return std::vector<ParameterPart>{{.name = spec_.adapter, .rows = out()}}; };
  int64_t begin = 0;
  for (const ParameterPart& part : spec_.adapter == nullptr ? spec_.parts : whole()) {
    const int64_t first = std::exchange(begin, begin + part.rows);
    if (!is_adapted(part.name)) continue;
    adapters_.push_back({.part = part,
                         .begin = first,
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
  ParameterSpec& weight = list[static_cast<size_t>(spec_.weight)];
  weight.split = spec_.split;
  weight.parts = spec_.parts;
  for (const Adapter& adapter : adapters_) {
    const std::string name = layer_parameter(layer_, adapter.part.name);
    // Variance of the authors' uniform(-1/sqrt(in), 1/sqrt(in)). B is zero, so that training starts from the base
    // model.
    const Init init{.mean = 0, .std = 1 / std::sqrt(3.0 * static_cast<double>(spec_.in))};
    ParameterSpec a{
        .name = name + ".lora_a", .shape = {lora_.rank, spec_.in}, .init = init, .decay = true, .adapter = true};
    ParameterSpec b{.name = name + ".lora_b",
                    .shape = {adapter.part.rows, lora_.rank},
                    .init = {.mean = 0, .std = 0},
                    .decay = true,
                    .adapter = true};
    if (spec_.split == Split::columns) {  // A is split like the columns of W, B like its rows
      a.split = Split::columns;
      a.parts = {{.name = adapter.part.name, .rows = lora_.rank, .quantum = adapter.part.quantum}};
    } else if (spec_.split == Split::rows) {
      b.split = Split::rows;
      b.parts = spec_.adapter == nullptr ? std::vector<ParameterPart>{adapter.part} : spec_.parts;
    }
    list.push_back(std::move(a));
    list.push_back(std::move(b));
  }
}

void Linear::split_bias(ParameterSpec& bias) const {
  if (spec_.split != Split::rows) return;
  bias.split = Split::rows;
  bias.parts = spec_.parts;
}

int64_t Linear::out() const {
  int64_t rows = 0;
  for (const ParameterPart& part : spec_.parts) rows += part.rows;
  return rows;
}

void Linear::add_saved(const Shape& shape, DType dtype, std::vector<BufferSpec>& list) const {
  if (fp8_)
    list.push_back(
        fp8_->transposed_input(shape.rows(), adapters_.empty() ? std::optional(Recompute::none) : std::nullopt));
  for (size_t i = 0; i < adapters_.size(); ++i)
    list.push_back({"adapter", {shape.rows(), lora_.rank}, dtype, Recompute::mlp});
}

bool Linear::kept_input(const Saved& saved, int input, int64_t rows) const {
  return keeps_transposed(rows) ? fp8_->keeps_transposed(saved) : saved.kept[static_cast<size_t>(input)];
}

at::Tensor Linear::input_amax(const Context& context, const Saved& saved, int64_t rows) const {
  return is_fp8(rows) ? fp8_->input_amax(context, saved) : at::Tensor();
}

at::Tensor Linear::gradient_scale(const Context& context, const Saved& saved, int64_t rows) const {
  return is_fp8(rows) ? fp8_->gradient_scale(context, saved) : at::Tensor();
}

at::Tensor Linear::gradient_amax(const Context& context, const Saved& saved, int64_t rows) const {
  const at::Tensor whole = gradient_scale(context, saved, rows);
  return whole.defined() ? whole.narrow(0, kFp8Expected, 1) : at::Tensor();
}

void Linear::keep_input(at::Tensor x, const Context& context, Saved& saved) const {
  if (keeps_transposed(x.size(0))) fp8_->save_input(x, context, saved);
}

at::Tensor Linear::dropped(const Adapter& adapter, at::Tensor x, Context& context) const {
  const Dropout dropout = dropout_at(lora_.dropout, adapter.site, context);
  if (dropout.p == 0) return x;
  const at::Tensor out = shaped(context.scratch[static_cast<size_t>(scratch_ + kWide)], x.size(0), x.size(1));
  dropout_forward(out, x, dropout);
  return out;
}

bool Linear::saves_input(const Context& context, const Saved& saved, bool recomputing) const {
  return adapters_.empty() && context.mode == Mode::train && (recomputing || fp8_->keeps_transposed(saved));
}

void Linear::forward(Weights w, at::Tensor y, at::Tensor x, Context& context, Saved& saved, bool recomputing) const {
  const auto parameter = [&](int place) { return w[static_cast<size_t>(place)]; };
  const at::Tensor bias = spec_.bias >= 0 ? parameter(spec_.bias) : at::Tensor();
  if (is_fp8(x.size(0)))
    fp8_->forward(y, x, parameter(spec_.weight), bias, context, saved, saves_input(context, saved, recomputing),
                  recomputing);
  else
    linear_forward(y, x, parameter(spec_.weight), bias);
  recompute(w, x, context, saved);
  for (const Adapter& adapter : adapters_)
    linear_add(y.narrow(1, adapter.begin, adapter.part.rows), saved[adapter.slot], parameter(adapter.b), lora_.scale);
}

void Linear::recompute(Weights w, at::Tensor x, Context& context, Saved& saved) const {
  for (const Adapter& adapter : adapters_)
    linear_forward(saved[adapter.slot], dropped(adapter, x, context), w[static_cast<size_t>(adapter.a)]);
}

void Linear::backward(Weights w, at::Tensor d_x, at::Tensor d_y, at::Tensor x, Context& context, Saved& saved,
                      Grads& grads, at::Tensor d_scale) const {
  if (spec_.bias >= 0) bias_backward(d_y, grads.target(spec_.bias));
  const at::Tensor& weight = w[static_cast<size_t>(spec_.weight)];
  if (is_fp8(x.size(0))) {
    const Target d_w = grads.target(spec_.weight);
    if (!adapters_.empty() && d_w.gradient.defined()) fp8_->save_input(x, context, saved);
    fp8_->backward(d_x, d_y, weight, d_w, context, saved, std::move(d_scale));
  } else {
    grads.matmul(spec_.weight, d_y, x);
    linear_backward_input(d_x, d_y, weight);
  }
  const int64_t rows = x.size(0);
  for (const Adapter& adapter : adapters_) {
    const at::Tensor &a = w[static_cast<size_t>(adapter.a)], &b = w[static_cast<size_t>(adapter.b)];
    const at::Tensor d_part = d_y.narrow(1, adapter.begin, adapter.part.rows);
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

void add_linear_scratch(const LoraOptions& lora, bool fp8, const Shape& shape, const LinearSizes& sizes, DType dtype,
                        std::vector<BufferSpec>& list) {
  const int64_t rows = shape.rows();
  if (lora.rank > 0) {
    list.push_back({"low", {rows * lora.rank}, dtype});
    list.push_back({"wide", {lora.dropout > 0 ? rows * sizes.widest_in : 0}, dtype});
  }
  if (fp8) Fp8Linear::add_scratch(rows, sizes.widest_in, sizes.widest_out, sizes.largest, list);
}

}  // namespace partita::internal
