// FP8 quantization and matmuls on a device: bytes equal to the CPU's, matmuls compared with the dequantized values,
// times.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "partita/ops/activation.h"
#include "partita/ops/fp8.h"
#include "partita/ops/matmul.h"
#include "partita/ops/norm.h"
#include "tests/ops_cuda/libs_check.h"

namespace partita::internal::ops_cuda {
namespace {

constexpr at::ScalarType kFormats[] = {at::kFloat8_e4m3fn, at::kFloat8_e5m2};

at::Tensor empty8(at::IntArrayRef shape, at::ScalarType format, at::Device device) {
  return at::empty(shape, at::TensorOptions(at::kByte).device(device)).view(format);
}
at::Tensor bytes(const at::Tensor& t) { return t.view(at::kByte).cpu(); }
at::Tensor zero_scale(at::Device device) {
  return at::zeros({kFp8Scale}, at::TensorOptions(at::kFloat).device(device));
}

Fp8 measured_rows(const at::Tensor& x, at::ScalarType format) {
  const Fp8 made{empty8(x.sizes(), format, x.device()), zero_scale(x.device())};
  fp8_measure(made.scale.narrow(0, 0, 1), x);
  fp8_quantize(made.values, {}, made.scale, x);
  return made;
}

void check_quantize(Report& report, at::ScalarType dtype, at::ScalarType format, int64_t R, int64_t C,
                    const std::string& kind) {
  const std::string name = text_of(dtype, {R, C}) + " " + at::toString(format) + kind;
  at::Tensor x = normal({R, C}, dtype, 0, kind == " small" ? 1e-7 : 3);
  if (kind == " zero") x.zero_();
  if (kind == " inf") x.view({-1}).narrow(0, R * C - 1, 1).fill_(-std::numeric_limits<float>::infinity());
  if (kind == " nan") x.view({-1}).narrow(0, R * C / 2, 1).fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor on_x = to_device(x), scale = zero_scale(at::kCPU);
  fp8_measure(scale.narrow(0, 0, 1), x);
  const at::Tensor rows = empty8({R, C}, format, at::kCPU), columns = empty8({C, R}, format, at::kCPU);
  fp8_quantize(rows, columns, scale, x, true);
  for (const auto& [with_rows, with_columns] :
       {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
    const at::Tensor on_rows = with_rows ? empty8({R, C}, format, at::kCUDA) : at::Tensor(),
                     on_columns = with_columns ? empty8({C, R}, format, at::kCUDA) : at::Tensor();
    const at::Tensor on_scale = zero_scale(at::kCUDA);
    fp8_measure(on_scale.narrow(0, 0, 1), on_x);
    fp8_quantize(on_rows, on_columns, on_scale, on_x, true);
    if (kind == " nan" || kind == " inf") {
      for (const int64_t place : {kFp8Expected, kFp8Measured})
        report.add(!std::isfinite(on_scale[place].item<float>()), "fp8 measured " + name,
                   fmt::format("{}", on_scale[place].item<float>()));
    } else {
      expect_same_bits(report, "fp8 scale " + name, on_scale, scale);
    }
    if (with_rows) expect_same_bits(report, "fp8 rows " + name, bytes(on_rows), bytes(rows));
    if (with_columns) expect_same_bits(report, "fp8 columns " + name, bytes(on_columns), bytes(columns));
  }
}

// Every bf16 value, with an amax that leaves some out of range.
void check_all_values(Report& report, at::ScalarType format) {
  const at::Tensor x = at::empty({256, 256}, at::TensorOptions(at::kBFloat16));
  for (int i = 0; i < 65536; ++i) static_cast<uint16_t*>(x.mutable_data_ptr())[i] = static_cast<uint16_t>(i);
  for (const float amax : {448.0F, 0.37F, 60000.0F}) {
    const at::Tensor scale = zero_scale(at::kCPU);
    scale.mutable_data_ptr<float>()[0] = amax;
    const at::Tensor rows = empty8({256, 256}, format, at::kCPU), on_rows = empty8({256, 256}, format, at::kCUDA);
    fp8_quantize(rows, {}, scale, x);
    fp8_quantize(on_rows, {}, to_device(scale), to_device(x));
    expect_same_bits(report, fmt::format("all bf16 values {} {}", at::toString(format), amax), bytes(on_rows),
                     bytes(rows));
  }
}

void check_product(Report& report, int64_t m, int64_t n, int64_t k) {
  for (const auto& [a_format, b_format] :
       {std::pair(at::kFloat8_e4m3fn, at::kFloat8_e4m3fn), std::pair(at::kFloat8_e5m2, at::kFloat8_e4m3fn),
        std::pair(at::kFloat8_e4m3fn, at::kFloat8_e5m2)})
    for (const at::ScalarType out_dtype : {at::kBFloat16, at::kFloat})
      for (const bool accumulate : {false, true}) {
        const Fp8 a = measured_rows(normal({m, k}, at::kBFloat16, 0, 3), a_format),
                  b = measured_rows(normal({n, k}, at::kBFloat16, 0, 0.02), b_format);
        const at::Tensor old = normal({m, n}, out_dtype);
        const at::Tensor expected = accumulate ? old.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true)
                                               : at::empty({m, n}, at::TensorOptions(at::kFloat));
        fp8_matmul(expected, a, b, accumulate);
        const at::Tensor out = to_device(accumulate ? old : nan({m, n}, out_dtype));
        fp8_matmul(out, {to_device(a.values.view(at::kByte)).view(a_format), to_device(a.scale)},
                   {to_device(b.values.view(at::kByte)).view(b_format), to_device(b.scale)}, accumulate);
        // Fast accumulation keeps some 13 bits of a sum.
        expect_close(report,
                     fmt::format("fp8 product {} {} x {}{}", text_of(out_dtype, {m, n, k}), at::toString(a_format),
                                 at::toString(b_format), accumulate ? " added" : ""),
                     out, expected, 1.0 / 128);
      }
  const at::Tensor bias = normal({n}, at::kBFloat16), expected = at::empty({m, n}, at::TensorOptions(at::kFloat));
  const Fp8 a = measured_rows(normal({m, k}, at::kBFloat16), at::kFloat8_e4m3fn),
            b = measured_rows(normal({n, k}, at::kBFloat16), at::kFloat8_e4m3fn);
  fp8_matmul(expected, a, b, false, bias.to(at::kFloat));
  const at::Tensor out = to_device(nan({m, n}, at::kBFloat16));
  fp8_matmul(out, {to_device(a.values.view(at::kByte)).view(at::kFloat8_e4m3fn), to_device(a.scale)},
             {to_device(b.values.view(at::kByte)).view(at::kFloat8_e4m3fn), to_device(b.scale)}, false,
             to_device(bias));
  expect_close(report, "fp8 product with bias " + text_of(at::kBFloat16, {m, n, k}), out, expected, 1.0 / 128);
}

void expect_amax(Report& report, const std::string& name, const at::Tensor& amax, const at::Tensor& made) {
  expect_same_bits(report, "amax of " + name, amax, made.cpu().to(at::kFloat).abs().max().view({1}));
}

// What kernels measure is the largest magnitude of what they wrote.
void check_producers(Report& report, at::ScalarType dtype, int64_t N, int64_t C) {
  const std::string name = text_of(dtype, {N, C});
  const auto on = [&](at::IntArrayRef shape) { return to_device(normal(shape, dtype)); };
  const auto fresh = [] { return at::zeros({1}, at::TensorOptions(at::kFloat).device(at::kCUDA)); };
  at::Tensor amax = fresh();
  const at::Tensor gate_up = on({N, 2 * C}), out = on({N, C}), d_gate_up = at::empty_like(gate_up), bias = on({C});
  swiglu_forward(out, gate_up, amax);
  expect_amax(report, "swiglu_forward " + name, amax, out);
  swiglu_backward(d_gate_up, out, gate_up, amax = fresh());
  expect_amax(report, "swiglu_backward " + name, amax, d_gate_up);
  const at::Tensor x = on({N, C}), d_x = on({N, C}), d_bias = to_device(normal({C}, at::kFloat));
  bias_gelu_forward(out, x, bias, amax = fresh());
  expect_amax(report, "bias_gelu_forward " + name, amax, out);
  bias_gelu_backward(d_x, out, x, {d_bias, false}, amax = fresh());
  expect_amax(report, "bias_gelu_backward " + name, amax, d_x);
  bias_gelu_backward(d_x, out, x, {}, amax = fresh());
  expect_amax(report, "bias_gelu_backward, bias frozen " + name, amax, d_x);
  for (const bool rms : {false, true}) {
    const auto vector = [&] { return to_device(normal({N}, at::kFloat, 1, 0.1)); };
    AddNorm op;
    op.sum = on({N, C}), op.branch = on({N, C}), op.weight = on({C}), op.residual = on({N, C}), op.normed = on({N, C});
    op.rstd = vector(), op.amax = fresh();
    if (!rms) op.norm_bias = on({C}), op.mean = vector();
    add_norm_forward(op);
    expect_amax(report, std::string("add_norm_forward ") + (rms ? "rms " : "") + name, op.amax, op.normed);
    AddNormBackward back;
    back.d_normed = on({N, C}), back.d_sum = on({N, C}), back.residual = op.residual, back.mean = op.mean;
    back.rstd = op.rstd, back.weight = op.weight, back.d_residual = on({N, C}), back.amax = fresh();
    add_norm_backward(back);
    expect_amax(report, std::string("add_norm_backward ") + (rms ? "rms " : "") + name, back.amax, back.d_residual);
  }
}

}  // namespace

void check_fp8(Report& report) {
  for (const at::ScalarType format : kFormats) {
    check_all_values(report, format);
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
      for (const auto& [R, C] :
           {std::pair<int64_t, int64_t>{16, 16}, {48, 144}, {128, 128}, {144, 112}, {272, 400}, {1040, 16}})
        for (const char* kind : {"", " small", " zero", " inf", " nan"})
          check_quantize(report, dtype, format, R, C, kind);
  }
  for (const auto& [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{16, 16, 16}, {48, 80, 176}, {256, 512, 1024}, {16, 2048, 128}})
    check_product(report, m, n, k);
  for (const at::ScalarType dtype : kDTypes)
    for (const auto& [N, C] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {33, 264}, {130, 1600}, {5, 4097}})
      check_producers(report, dtype, N, C);
}

// Llama 1.1B: 8 samples of 2048 tokens.
void time_fp8() {
  struct Layer {
    const char* name;
    int64_t in, out;
  };
  constexpr int64_t N = 16384;
  const auto half = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  for (const Layer& l :
       {Layer{"qkv", 2048, 2560}, {"output", 2048, 2048}, {"gate+up", 2048, 11264}, {"down", 5632, 2048}}) {
    const std::string name = fmt::format("fp8 1.1B {} ", l.name);
    const at::Tensor x = at::randn({N, l.in}, half), w = at::randn({l.out, l.in}, half),
                     d = at::randn({N, l.out}, half);
    // A few large values, as gradients have: the others lie far below the scale.
    d.mul_(at::randn({N, 1}, half).exp_()).mul_(1e-4);
    const auto quantized = [&](const std::string& what, const at::Tensor& t, at::ScalarType format) {
      const Fp8 rows{empty8(t.sizes(), format, at::kCUDA), zero_scale(at::kCUDA)},
          columns{empty8({t.size(1), t.size(0)}, format, at::kCUDA), rows.scale};
      const double elements = static_cast<double>(t.numel());
      time_kernel(name + what + " measured", 2 * elements, [&] { fp8_measure(rows.scale.narrow(0, 0, 1), t); });
      time_kernel(name + what + " rows, columns", 4 * elements,
                  [&] { fp8_quantize(rows.values, columns.values, rows.scale, t); });
      time_kernel(name + what + " both, measured", 4 * elements,
                  [&] { fp8_quantize(rows.values, columns.values, rows.scale, t, true); });
      time_kernel(name + what + " rows", 3 * elements, [&] { fp8_quantize(rows.values, {}, rows.scale, t); });
      time_kernel(name + what + " columns", 3 * elements, [&] { fp8_quantize({}, columns.values, rows.scale, t); });
      const at::Tensor zeros = rows.values.to(at::kFloat).eq(0);
      fmt::print("{:<58} {:9.3f} % zeros\n", name + what, 100 * zeros.to(at::kFloat).mean().item<float>());
      return std::pair(rows, columns);
    };
    const auto [x8, x8t] = quantized("x", x, at::kFloat8_e4m3fn);
    const auto [w8, w8t] = quantized("w", w, at::kFloat8_e4m3fn);
    const auto [d8, d8t] = quantized("gradient", d, at::kFloat8_e5m2);
    const at::Tensor y = at::empty_like(d), d_x = at::empty_like(x), d_w = at::empty_like(w),
                     d_w32 = at::zeros(w.sizes(), half.dtype(at::kFloat));
    const double flops = 2.0 * static_cast<double>(N) * static_cast<double>(l.in) * static_cast<double>(l.out);
    time_flops(name + "forward", flops, [&, &a = x8, &b = w8] { fp8_matmul(y, a, b, false); });
    time_flops(name + "gradient of x", flops, [&, &a = d8, &b = w8t] { fp8_matmul(d_x, a, b, false); });
    time_flops(name + "gradient of w", flops, [&, &a = d8t, &b = x8t] { fp8_matmul(d_w, a, b, false); });
    time_flops(name + "gradient of w, fp32 +=", flops, [&, &a = d8t, &b = x8t] { fp8_matmul(d_w32, a, b, true); });
  }
}

}  // namespace partita::internal::ops_cuda
