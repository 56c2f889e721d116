#include "partita/ops/activation.h"

#include "partita/ops/cuda/activation.h"
#include "tests/ops_cuda/kernels_check.h"

namespace partita::internal::ops_cuda {
namespace {

struct Case {
  int64_t N, C, offset = 0;
};
const Case kCases[] = {{0, 8},    {1, 1},      {3, 7},      {5, 16},   {5, 16, 1},    {33, 100},
                       {70, 384}, {1000, 257}, {300, 3072}, {1, 5001}, {2000, 72, 3}, {9000, 8}};

// Fixed points besides random ones: zero, large numbers on both sides.
at::Tensor with_extremes(at::Tensor x) {
  const double extremes[] = {0, -0.0, 60, -60, 9, -9, 1e-6, -20};
  for (int64_t i = 0; i < std::min<int64_t>(x.numel(), 8); ++i) x.view({-1}).narrow(0, i, 1).fill_(extremes[i]);
  return x;
}

void check_gelu(Report& report, const Case& c, at::ScalarType dtype) {
  const std::string name = "gelu " + text_of(dtype, {c.N, c.C}) + (c.offset > 0 ? " not aligned" : "");
  const double tolerance = one_rounding(dtype);
  at::Tensor x = with_extremes(normal({c.N, c.C}, dtype, 0, 2)), bias = normal({c.C}, dtype),
             out = nan({c.N, c.C}, dtype);
  const at::Tensor device_x = to_device(x, c.offset), device_out = to_device(out, c.offset);
  bias_gelu_forward(out, x, bias);
  cuda::bias_gelu_forward(device_out, device_x, to_device(bias, c.offset));
  expect_same_bits(report, name + " x + bias", device_x, x);
  expect_close(report, name, device_out, out, tolerance);
  const at::Tensor again = to_device(nan({c.N, c.C}, dtype), c.offset);
  cuda::gelu_recompute(again, device_x);
  expect_same_bits(report, name + " recomputed", again, device_out);

  const at::Tensor d_out = normal({c.N, c.C}, dtype), d_x = nan({c.N, c.C}, dtype);
  for (const bool accumulate : {false, true}) {
    const at::Tensor d_bias = accumulate ? normal({c.C}, at::kFloat) : nan({c.C});
    const at::Tensor device_d_bias = to_device(d_bias), second_d_bias = to_device(d_bias);
    const at::Tensor device_d_x = to_device(d_x, c.offset), device_d_out = to_device(d_out, c.offset);
    bias_gelu_backward(d_x, d_out, x, {d_bias, accumulate});
    cuda::bias_gelu_backward(device_d_x, device_d_out, device_x, {device_d_bias, accumulate});
    expect_close(report, name + " d_x", device_d_x, d_x, tolerance);
    expect_close(report, name + " d_bias", device_d_bias, d_bias, tolerance);
    cuda::bias_gelu_backward(device_d_out, device_d_out, device_x, {second_d_bias, accumulate});
    expect_same_bits(report, name + " d_x in place", device_d_out, device_d_x);
    expect_same_bits(report, name + " d_bias again", second_d_bias, device_d_bias);
  }
  const at::Tensor frozen = to_device(d_x, c.offset);
  cuda::bias_gelu_backward(frozen, to_device(d_out, c.offset), device_x, {});
  expect_close(report, name + " d_x alone", frozen, d_x, tolerance);
}

void check_swiglu(Report& report, const Case& c, at::ScalarType dtype) {
  const std::string name = "swiglu " + text_of(dtype, {c.N, c.C}) + (c.offset > 0 ? " not aligned" : "");
  const double tolerance = one_rounding(dtype);
  const at::Tensor gate_up = with_extremes(normal({c.N, 2 * c.C}, dtype, 0, 2)), out = nan({c.N, c.C}, dtype);
  const at::Tensor device = to_device(gate_up, c.offset), device_out = to_device(out, c.offset);
  swiglu_forward(out, gate_up);
  cuda::swiglu_forward(device_out, device);
  expect_close(report, name, device_out, out, tolerance);

  const at::Tensor d_out = normal({c.N, c.C}, dtype), d = nan({c.N, 2 * c.C}, dtype);
  const at::Tensor device_d = to_device(d, c.offset), device_d_out = to_device(d_out, c.offset);
  swiglu_backward(d, d_out, gate_up);
  cuda::swiglu_backward(device_d, device_d_out, device);
  expect_close(report, name + " backward", device_d, d, tolerance);
  cuda::swiglu_backward(device, device_d_out, device);
  expect_same_bits(report, name + " backward in place", device, device_d);
}

void check_bias(Report& report, const Case& c, at::ScalarType dtype) {
  const std::string name = "bias " + text_of(dtype, {c.N, c.C}) + (c.offset > 0 ? " not aligned" : "");
  const at::Tensor d = normal({c.N, c.C}, dtype);
  for (const bool accumulate : {false, true}) {
    const at::Tensor d_bias = accumulate ? normal({c.C}, at::kFloat) : nan({c.C}), device_d_bias = to_device(d_bias);
    bias_backward(d, {d_bias, accumulate});
    cuda::bias_backward(to_device(d, c.offset), {device_d_bias, accumulate});
    expect_close(report, name, device_d_bias, d_bias, 1e-5);
  }
}

}  // namespace

void check_activations(Report& report) {
  for (const at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      check_gelu(report, c, dtype);
      check_swiglu(report, c, dtype);
      check_bias(report, c, dtype);
    }
  const at::Tensor x = to_device(normal({4, 8}, at::kFloat));
  expect_error(report, "swiglu of a wrong shape", "expected [4, 4]", [&] { cuda::swiglu_forward(x, x); });
  expect_error(report, "gelu of a CPU tensor", "out is on cpu", [&] {
    cuda::gelu_recompute(normal({4, 8}, at::kFloat), x);
  });
}

}  // namespace partita::internal::ops_cuda
