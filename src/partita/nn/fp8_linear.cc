#include "partita/nn/fp8_linear.h"

#include <algorithm>

#include "partita/nn/tensor_parallel.h"
#include "partita/ops/fp8.h"

namespace partita::internal {
namespace {

constexpr int64_t kLinearScales = kScalesOfLinear * kFp8Scale;

enum Scratch : uint8_t { kRows, kTransposed, kMatrix };  // x or d_y; d_y transposed; W

// Whether tensors are measured before they are quantized.
bool unknown(const Context& context) { return !(context.scales.defined() && context.scales_known); }

}  // namespace

bool Fp8Linear::fits(int64_t rows) const { return rows > 0 && sizes_.fit && fp8_fits(rows, sizes_.in, sizes_.out); }

BufferSpec Fp8Linear::transposed_input(int64_t rows, std::optional<Recompute> saved_up_to) const {
  return {"input_fp8", {fits(rows) ? sizes_.in : 0, rows}, DType::uint8, saved_up_to};
}

at::Tensor Fp8Linear::scales(const Context& context, const Saved& saved, Scale first, Scale last) const {
  const at::Tensor all = context.scales.defined() ? context.scales.view(-1) : saved[at_.scales];
  return all.narrow(0, at_.linear * kLinearScales + first * kFp8Scale, (last - first + 1) * kFp8Scale);
}

at::Tensor Fp8Linear::transposed(const Saved& saved) const { return saved[at_.transposed].view(at::kFloat8_e4m3fn); }

at::Tensor Fp8Linear::temporary(const Context& context, int index, int64_t rows, int64_t columns,
                                at::ScalarType format) const {
  const at::Tensor& memory = context.scratch[static_cast<size_t>(at_.scratch + index)];
  return memory.narrow(0, 0, rows * columns).view({rows, columns}).view(format);
}

at::Tensor Fp8Linear::input_amax(const Context& context, const Saved& saved) const {
  if (context.scales.defined()) return {};
  return scale(context, saved, kInput).narrow(0, kFp8Expected, 1);
}

at::Tensor Fp8Linear::gradient_scale(const Context& context, const Saved& saved) const {
  return context.scales.defined() ? at::Tensor() : scale(context, saved, kGradient);
}

void Fp8Linear::measure(Scale which, const at::Tensor& x, const Context& context, const Saved& saved) const {
  fp8_measure(scale(context, saved, which).narrow(0, kFp8Expected, 1), x);
}

bool Fp8Linear::is_part(bool columns, bool by_producer, int64_t rows, const Context& context) {
  if (context.tensor == nullptr) return false;
  return columns || (by_producer && context.tensor->split().splits_rows(rows));
}

at::Tensor Fp8Linear::quantize(at::Tensor rows, at::Tensor columns, Scale which, const at::Tensor& x, bool again,
                               const Context& context, const Saved& saved) const {
  const at::Tensor factor = scale(context, saved, which);
  fp8_quantize(rows, columns, factor, x, !again && context.scales.defined() && context.mode == Mode::train);
  return factor;
}

void Fp8Linear::save_input(const at::Tensor& x, const Context& context, const Saved& saved) const {
  quantize({}, transposed(saved), kInput, x, true, context, saved);
}

void Fp8Linear::forward(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                        const Context& context, const Saved& saved, bool save_input, bool recomputing) const {
  const int64_t n = x.size(0);
  const at::Tensor rows = temporary(context, kRows, n, sizes_.in, at::kFloat8_e4m3fn),
                   matrix = temporary(context, kMatrix, sizes_.out, sizes_.in, at::kFloat8_e4m3fn);
  if (!recomputing && unknown(context)) {
    const bool by_producer = measured_ && !context.scales.defined();
    if (!by_producer) measure(kInput, x, context, saved);
    measure(kWeight, w, context, saved);
    const bool part = is_part(split_ == Split::columns, by_producer, n, context);
    // All numbers of a scale are magnitudes, each equal on all ranks or an amax, so that it is exchanged as a whole.
    if (context.tensor != nullptr) context.tensor->largest(scales(context, saved, part ? kInput : kWeight, kWeight));
  }
  const at::Tensor x_scale =
      quantize(rows, save_input ? transposed(saved) : at::Tensor(), kInput, x, recomputing, context, saved);
  const at::Tensor w_scale = quantize(matrix, {}, kWeight, w, recomputing, context, saved);
  fp8_matmul(y, {rows, x_scale}, {matrix, w_scale}, false, bias);
}

void Fp8Linear::backward(const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& w, const Target& d_w,
                         const Context& context, const Saved& saved, at::Tensor d_scale) const {
  const int64_t n = d_y.size(0);
  const bool trained = d_w.gradient.defined(), by_producer = d_scale.defined();
  const at::Tensor rows = temporary(context, kRows, n, sizes_.out, at::kFloat8_e5m2);
  const at::Tensor columns = trained ? temporary(context, kTransposed, sizes_.out, n, at::kFloat8_e5m2) : at::Tensor();
  if (!by_producer) {
    d_scale = scale(context, saved, kGradient);
    if (unknown(context)) measure(kGradient, d_y, context, saved);
  }
  if (unknown(context) && is_part(split_ != Split::columns, by_producer, n, context)) context.tensor->largest(d_scale);
  fp8_quantize(rows, columns, d_scale, d_y, context.scales.defined() && context.mode == Mode::train);
  if (trained)
    fp8_matmul(d_w.gradient, {columns, d_scale}, {transposed(saved), scale(context, saved, kInput)}, d_w.accumulate);
  const at::Tensor matrix = temporary(context, kMatrix, sizes_.in, sizes_.out, at::kFloat8_e4m3fn);
  const at::Tensor w_scale = quantize({}, matrix, kWeight, w, true, context, saved);
  fp8_matmul(d_x, {rows, d_scale}, {matrix, w_scale}, false);
}

void Fp8Linear::add_scratch(int64_t rows, int64_t widest_in, int64_t widest_out, int64_t largest,
                            std::vector<BufferSpec>& list) {
  list.push_back({"rows_fp8", {rows * std::max(widest_in, widest_out)}, DType::uint8});
  list.push_back({"transposed_fp8", {rows * widest_out}, DType::uint8});
  list.push_back({"weight_fp8", {largest}, DType::uint8});
}

BufferSpec linear_scales(int linears, bool fp8) {
  return {"scales", {fp8 ? linears * kLinearScales : 0}, DType::fp32, Recompute::full};
}

void begin_scales(const Context& context, const at::Tensor& scales) {
  if (scales.numel() > 0 && !context.scales.defined()) scales.zero_();
}

at::Tensor begin_branch_scale(const Context& context, bool fp8) {
  return fp8 && !context.scales.defined() ? context.outputs.scale.zero_() : at::Tensor();
}

}  // namespace partita::internal
