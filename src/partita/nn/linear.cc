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

// After the layer's own scratch: buffers of adapters and of fp8. kRows holds x or d_y, kTransposed d_y transposed.
enum Scratch : uint8_t { kLow, kWide, kRows, kTransposed, kMatrix };
constexpr int64_t kLinearScales = kScalesOfLinear * kFp8Scale;

// The first elements of a temporary as [rows, columns].
at::Tensor shaped(const at::Tensor& memory, int64_t rows, int64_t columns) {
  return memory.narrow(0, 0, rows * columns).view({rows, columns});
}

}  // namespace

Linear::Linear(LinearSpec spec, int64_t layer, const LoraOptions& lora, LinearIndices& next)
    : spec_(std::move(spec)),
      layer_(layer),
      lora_(lora),
      scratch_(next.scratch),
      scales_(next.scales),
      number_(next.linear++),
      transposed_(next.slot),
      fp8_(next.fp8) {
  if (fp8_) ++next.slot;
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
    list.push_back({"input_fp8",
                    {is_fp8(shape.rows()) ? spec_.in : 0, shape.rows()},
                    DType::uint8,
                    adapters_.empty() ? Keep::all : Keep::never});
  for (size_t i = 0; i < adapters_.size(); ++i)
    list.push_back({"adapter", {shape.rows(), lora_.rank}, dtype, Keep::attention});
}

bool Linear::is_fp8(int64_t rows) const { return fp8_ && rows > 0 && fp8_fits(rows, spec_.in, out()); }

bool Linear::kept_input(const Saved& saved, int input, int64_t rows) const {
  return saved.kept[static_cast<size_t>(keeps_transposed(rows) ? transposed_ : input)];
}

at::Tensor Linear::scale(const Context& context, const Saved& saved, Scale which) const {
  const at::Tensor all = context.scales.defined() ? context.scales.view(-1) : saved[scales_];
  return all.narrow(0, number_ * kLinearScales + which * kFp8Scale, kFp8Scale);
}

at::Tensor Linear::input_amax(const Context& context, const Saved& saved, int64_t rows) const {
  if (!is_fp8(rows) || context.scales.defined()) return {};
  return scale(context, saved, kInput).narrow(0, kFp8Expected, 1);
}

at::Tensor Linear::gradient_scale(const Context& context, const Saved& saved, int64_t rows) const {
  if (!is_fp8(rows) || context.scales.defined()) return {};
  return scale(context, saved, kGradient);
}

at::Tensor Linear::gradient_amax(const Context& context, const Saved& saved, int64_t rows) const {
  const at::Tensor whole = gradient_scale(context, saved, rows);
  return whole.defined() ? whole.narrow(0, kFp8Expected, 1) : at::Tensor();
}

at::Tensor Linear::transposed_input(const Saved& saved) const { return saved[transposed_].view(at::kFloat8_e4m3fn); }

at::Tensor Linear::temporary(const Context& context, int place, int64_t rows, int64_t columns,
                             at::ScalarType format) const {
  const int first = scratch_ + (lora_.rank == 0 ? 0 : kRows);
  return shaped(context.scratch[static_cast<size_t>(first + place - kRows)], rows, columns).view(format);
}

void Linear::keep_input(at::Tensor x, const Context& context, Saved& saved) const {
  if (keeps_transposed(x.size(0))) quantize({}, transposed_input(saved), kInput, x, context, saved, true, false);
}

at::Tensor Linear::quantize(at::Tensor rows, at::Tensor columns, Scale which, const at::Tensor& x,
                            const Context& context, const Saved& saved, bool made, bool fresh) const {
  const at::Tensor its = scale(context, saved, which);
  const bool delayed = context.scales.defined();
  if (fresh && (delayed ? !context.scales_known : !made)) fp8_measure(its.narrow(0, kFp8Expected, 1), x);
  fp8_quantize(rows, columns, its, x, fresh && delayed && context.mode == Mode::train);
  return its;
}

void Linear::forward_fp8(const at::Tensor& w, const at::Tensor& y, const at::Tensor& x, const at::Tensor& bias,
                         Context& context, Saved& saved, bool again) const {
  const bool read_later =
      adapters_.empty() && context.mode == Mode::train && (again || saved.kept[static_cast<size_t>(transposed_)]);
  const at::Tensor rows = temporary(context, kRows, x.size(0), spec_.in, at::kFloat8_e4m3fn),
                   matrix = temporary(context, kMatrix, out(), spec_.in, at::kFloat8_e4m3fn);
  const at::Tensor x_scale = quantize(rows, read_later ? transposed_input(saved) : at::Tensor(), kInput, x, context,
                                      saved, spec_.measured, !again);
  const at::Tensor w_scale = quantize(matrix, {}, kWeight, w, context, saved, false, !again);
  fp8_matmul(y, {rows, x_scale}, {matrix, w_scale}, false, bias);
}

void Linear::backward_fp8(const at::Tensor& w, const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& x,
                          Context& context, Saved& saved, Target d_w, at::Tensor d_scale) const {
  const int64_t n = d_y.size(0);
  const at::Tensor rows = temporary(context, kRows, n, out(), at::kFloat8_e5m2);
  const bool trained = d_w.gradient.defined();
  const at::Tensor turned = trained ? temporary(context, kTransposed, out(), n, at::kFloat8_e5m2) : at::Tensor();
  if (d_scale.defined())
    fp8_quantize(rows, turned, d_scale, d_y);
  else
    d_scale = quantize(rows, turned, kGradient, d_y, context, saved, false, true);
  if (trained) {
    if (!adapters_.empty()) quantize({}, transposed_input(saved), kInput, x, context, saved, true, false);
    fp8_matmul(d_w.gradient, {turned, d_scale}, {transposed_input(saved), scale(context, saved, kInput)},
               d_w.accumulate);
  }
  const at::Tensor matrix = temporary(context, kMatrix, spec_.in, out(), at::kFloat8_e4m3fn);
  const at::Tensor w_scale = quantize({}, matrix, kWeight, w, context, saved, true, false);
  fp8_matmul(d_x, {rows, d_scale}, {matrix, w_scale}, false);
}

at::Tensor Linear::dropped(const Adapter& adapter, at::Tensor x, Context& context) const {
  const Dropout dropout = dropout_at(lora_.dropout, adapter.site, context);
  if (dropout.p == 0) return x;
  const at::Tensor out = shaped(context.scratch[static_cast<size_t>(scratch_ + kWide)], x.size(0), x.size(1));
  dropout_forward(out, x, dropout);
  return out;
}

void Linear::forward(Weights w, at::Tensor y, at::Tensor x, Context& context, Saved& saved, bool again) const {
  const auto parameter = [&](int place) { return w[static_cast<size_t>(place)]; };
  const at::Tensor bias = spec_.bias >= 0 ? parameter(spec_.bias) : at::Tensor();
  if (is_fp8(x.size(0)))
    forward_fp8(parameter(spec_.weight), y, x, bias, context, saved, again);
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
    backward_fp8(weight, d_x, d_y, x, context, saved, grads.target(spec_.weight), d_scale);
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

BufferSpec linear_scales(int linears, bool fp8) {
  return {"scales", {fp8 ? linears * kLinearScales : 0}, DType::fp32, Keep::entry};
}

void begin_scales(const Context& context, const at::Tensor& scales) {
  if (scales.numel() > 0 && !context.scales.defined()) scales.zero_();
}

at::Tensor begin_branch_scale(const Context& context, bool fp8) {
  return fp8 && !context.scales.defined() ? context.outputs.scale.zero_() : at::Tensor();
}

void add_linear_scratch(const LoraOptions& lora, bool fp8, const Shape& shape, const LinearSizes& sizes, DType dtype,
                        std::vector<BufferSpec>& list) {
  const int64_t rows = shape.rows();
  if (lora.rank > 0) {
    list.push_back({"low", {rows * lora.rank}, dtype});
    list.push_back({"wide", {lora.dropout > 0 ? rows * sizes.widest_in : 0}, dtype});
  }
  if (fp8) {
    list.push_back({"rows_fp8", {rows * std::max(sizes.widest_in, sizes.widest_out)}, DType::uint8});
    list.push_back({"transposed_fp8", {rows * sizes.widest_out}, DType::uint8});
    list.push_back({"weight_fp8", {sizes.largest}, DType::uint8});
  }
}

}  // namespace partita::internal
