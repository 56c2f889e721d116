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

at::Tensor Fp8Linear::temporary(const Context& context, int index, const RowRun& run, int64_t columns,
                                at::ScalarType format) const {
  return temporary(context, index, run.begin + run.count, columns, format).narrow(0, run.begin, run.count);
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

bool Fp8Linear::is_part(bool columns, int64_t rows, const Context& context) {
  return context.tensor != nullptr && (columns || context.tensor->split().splits_rows(rows));
}

void Fp8Linear::quantize(at::Tensor rows, at::Tensor columns, Scale which, const at::Tensor& x, bool again,
                         const Context& context, const Saved& saved) const {
  fp8_quantize(rows, columns, scale(context, saved, which), x,
               !again && context.scales.defined() && context.mode == Mode::train);
}

void Fp8Linear::save_input(const at::Tensor& x, const Context& context, const Saved& saved) const {
  quantize({}, transposed(saved), kInput, x, true, context, saved);
}

void Fp8Linear::set_scales(const at::Tensor& x, const at::Tensor& w, int64_t rows, const Context& context,
                           const Saved& saved, bool recomputing) const {
  if (!recomputing && unknown(context)) {
    if (!measured_ || context.scales.defined()) measure(kInput, x, context, saved);
    measure(kWeight, w, context, saved);
    const bool part = is_part(split_ == Split::columns, rows, context);
    // All numbers of a scale are magnitudes, each equal on all ranks or an amax, so that it is exchanged as a whole.
    if (context.tensor != nullptr) context.tensor->largest(scales(context, saved, part ? kInput : kWeight, kWeight));
  }
  quantize(temporary(context, kMatrix, sizes_.out, sizes_.in, at::kFloat8_e4m3fn), {}, kWeight, w, recomputing, context,
           saved);
}

void Fp8Linear::quantize_input(const at::Tensor& x, const RowRun& run, bool and_transposed, const Context& context,
                               const Saved& saved, bool recomputing) const {
  quantize(temporary(context, kRows, run, sizes_.in, at::kFloat8_e4m3fn),
           and_transposed ? transposed(saved) : at::Tensor(), kInput, x, recomputing, context, saved);
}

void Fp8Linear::multiply_input(const at::Tensor& y, const RowRun& run, const at::Tensor& bias, const Context& context,
                               const Saved& saved) const {
  const at::Tensor rows = temporary(context, kRows, run, sizes_.in, at::kFloat8_e4m3fn),
                   matrix = temporary(context, kMatrix, sizes_.out, sizes_.in, at::kFloat8_e4m3fn);
  fp8_matmul(y, {rows, scale(context, saved, kInput)}, {matrix, scale(context, saved, kWeight)}, false, bias);
}

at::Tensor Fp8Linear::set_gradient_scale(const at::Tensor& d_y, const at::Tensor& w, int64_t rows,
                                         const Context& context, const Saved& saved, at::Tensor d_scale) const {
  if (!d_scale.defined()) {
    d_scale = scale(context, saved, kGradient);
    if (unknown(context)) measure(kGradient, d_y, context, saved);
  }
  if (unknown(context) && is_part(split_ != Split::columns, rows, context)) context.tensor->largest(d_scale);
  quantize({}, temporary(context, kMatrix, sizes_.in, sizes_.out, at::kFloat8_e4m3fn), kWeight, w, true, context,
           saved);
  return d_scale;
}

void Fp8Linear::quantize_gradient(const at::Tensor& d_y, const RowRun& run, bool and_transposed,
                                  const at::Tensor& d_scale, const Context& context) const {
  fp8_quantize(temporary(context, kRows, run, sizes_.out, at::kFloat8_e5m2),
               and_transposed ? temporary(context, kTransposed, sizes_.out, run.count, at::kFloat8_e5m2) : at::Tensor(),
               d_scale, d_y, context.scales.defined() && context.mode == Mode::train);
}

void Fp8Linear::transpose_gradient(const at::Tensor& d_y, const at::Tensor& d_scale, const Context& context) const {
  fp8_quantize({}, temporary(context, kTransposed, sizes_.out, d_y.size(0), at::kFloat8_e5m2), d_scale, d_y);
}

void Fp8Linear::multiply_gradient(const at::Tensor& d_x, const RowRun& run, const at::Tensor& d_scale,
                                  const Context& context, const Saved& saved) const {
  const at::Tensor rows = temporary(context, kRows, run, sizes_.out, at::kFloat8_e5m2),
                   matrix = temporary(context, kMatrix, sizes_.in, sizes_.out, at::kFloat8_e4m3fn);
  fp8_matmul(d_x, {rows, d_scale}, {matrix, scale(context, saved, kWeight)}, false);
}

void Fp8Linear::weight_gradient(const Target& d_w, const at::Tensor& d_scale, const Context& context,
                                const Saved& saved) const {
  const at::Tensor x = transposed(saved),
                   columns = temporary(context, kTransposed, sizes_.out, x.size(1), at::kFloat8_e5m2);
  fp8_matmul(d_w.gradient, {columns, d_scale}, {x, scale(context, saved, kInput)}, d_w.accumulate);
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
