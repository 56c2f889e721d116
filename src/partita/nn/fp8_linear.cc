#include "partita/nn/fp8_linear.h"

#include <algorithm>

#include "partita/ops/fp8.h"

namespace partita::internal {
namespace {

constexpr int64_t kLinearScales = kScalesOfLinear * kFp8Scale;

enum Scratch : uint8_t { kRows, kTransposed, kMatrix };  // x or d_y; d_y transposed; W

}  // namespace

bool Fp8Linear::fits(int64_t rows) const { return rows > 0 && fp8_fits(rows, in_, out_); }

BufferSpec Fp8Linear::transposed_input(int64_t rows, std::optional<Recompute> saved_up_to) const {
  return {"input_fp8", {fits(rows) ? in_ : 0, rows}, DType::uint8, saved_up_to};
}

at::Tensor Fp8Linear::scale(const Context& context, const Saved& saved, Scale which) const {
  const at::Tensor all = context.scales.defined() ? context.scales.view(-1) : saved[at_.scales];
  return all.narrow(0, at_.linear * kLinearScales + which * kFp8Scale, kFp8Scale);
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

at::Tensor Fp8Linear::quantize(at::Tensor rows, at::Tensor columns, Scale which, const at::Tensor& x, Amax amax,
                               const Context& context, const Saved& saved) const {
  const at::Tensor factor = scale(context, saved, which);
  const bool delayed = context.scales.defined(), first = amax != Amax::known;
  const bool known = delayed ? context.scales_known : amax == Amax::by_producer;
  if (first && !known) fp8_measure(factor.narrow(0, kFp8Expected, 1), x);
  fp8_quantize(rows, columns, factor, x, first && delayed && context.mode == Mode::train);
  return factor;
}

void Fp8Linear::save_input(const at::Tensor& x, const Context& context, const Saved& saved) const {
  quantize({}, transposed(saved), kInput, x, Amax::known, context, saved);
}

void Fp8Linear::forward(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                        const Context& context, const Saved& saved, bool save_input, bool recomputing) const {
  const at::Tensor rows = temporary(context, kRows, x.size(0), in_, at::kFloat8_e4m3fn),
                   matrix = temporary(context, kMatrix, out_, in_, at::kFloat8_e4m3fn);
  const Amax input = recomputing ? Amax::known : measured_ ? Amax::by_producer : Amax::unknown;
  const at::Tensor x_scale =
      quantize(rows, save_input ? transposed(saved) : at::Tensor(), kInput, x, input, context, saved);
  const at::Tensor w_scale =
      quantize(matrix, {}, kWeight, w, recomputing ? Amax::known : Amax::unknown, context, saved);
  fp8_matmul(y, {rows, x_scale}, {matrix, w_scale}, false, bias);
}

void Fp8Linear::backward(const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& w, const Target& d_w,
                         const Context& context, const Saved& saved, at::Tensor d_scale) const {
  const int64_t n = d_y.size(0);
  const bool trained = d_w.gradient.defined();
  const at::Tensor rows = temporary(context, kRows, n, out_, at::kFloat8_e5m2);
  const at::Tensor columns = trained ? temporary(context, kTransposed, out_, n, at::kFloat8_e5m2) : at::Tensor();
  if (d_scale.defined())
    fp8_quantize(rows, columns, d_scale, d_y);
  else
    d_scale = quantize(rows, columns, kGradient, d_y, Amax::unknown, context, saved);
  if (trained)
    fp8_matmul(d_w.gradient, {columns, d_scale}, {transposed(saved), scale(context, saved, kInput)}, d_w.accumulate);
  const at::Tensor matrix = temporary(context, kMatrix, in_, out_, at::kFloat8_e4m3fn);
  const at::Tensor w_scale = quantize({}, matrix, kWeight, w, Amax::known, context, saved);
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
