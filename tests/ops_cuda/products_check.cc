#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "partita/base/cuda_error.h"
#include "partita/ops/activation.h"
#include "partita/ops/cuda/matmul.h"
#include "partita/ops/cuda/workspace.h"
#include "partita/ops/matmul.h"
#include "partita/ops/matmul_tuning.h"
#include "tests/ops_cuda/libs_check.h"

namespace partita::internal::ops_cuda {
namespace {

struct Size {
  int64_t N, in, out;
};
constexpr Size kSizes[] = {{1, 1, 1}, {3, 5, 7}, {17, 33, 65}, {64, 128, 256}, {130, 100, 24},  {1, 64, 8}, {0, 8, 8},
                           {8, 0, 8}, {8, 8, 0}, {7, 1, 16},   {1, 777, 13},   {257, 768, 200}, {513, 2, 3}};

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

// A place for y in a wider matrix on the device, whose other columns are to stay what they are.
class Columns {
 public:
  explicit Columns(const at::Tensor& y) : before_(normal({y.size(0), y.size(1) + 5}, y.scalar_type())) {
    before_.narrow(1, 2, y.size(1)).copy_(y);
    after_ = to_device(before_);
  }
  [[nodiscard]] at::Tensor y() const { return after_.narrow(1, 2, after_.size(1) - 5); }
  void expect_others_same(Report& report, const std::string& name) const {
    const at::Tensor now = after_.cpu();
    for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 2}, {before_.size(1) - 3, 3}})
      expect_same_bits(report, name + " beside it", now.narrow(1, begin, count), before_.narrow(1, begin, count));
  }

 private:
  at::Tensor before_, after_;
};

void check_forward(Report& report, at::ScalarType dtype, const Size& s) {
  const at::Tensor x = normal({s.N, s.in}, dtype), w = normal({s.out, s.in}, dtype), bias = normal({s.out}, dtype),
                   old = normal({s.N, s.out}, dtype);
  const std::string name = text_of(dtype, {s.N, s.in, s.out});
  const double allowed = one_rounding(dtype);
  at::Tensor expected = at::empty({s.N, s.out}, at::TensorOptions(at::kFloat));

  for (const bool with_bias : {false, true}) {
    linear_forward(expected, wide(x), wide(w), with_bias ? wide(bias) : at::Tensor());
    const at::Tensor y = to_device(nan({s.N, s.out}, dtype));
    cuda::linear_forward(y, to_device(x), to_device(w), with_bias ? to_device(bias) : at::Tensor());
    expect_close(report, fmt::format("linear_forward{} {}", with_bias ? " bias" : "", name), y, expected, allowed);
  }
  const Columns columns(old);
  cuda::linear_forward(columns.y(), to_device(x), to_device(w), to_device(bias));
  expect_close(report, "linear_forward into columns " + name, columns.y(), expected, allowed);
  columns.expect_others_same(report, "linear_forward into columns " + name);

  expected.copy_(old);
  linear_add(expected, wide(x), wide(w), 0.5F);
  const Columns sum(old);
  cuda::linear_add(sum.y(), to_device(x), to_device(w), 0.5F);
  expect_close(report, "linear_add " + name, sum.y(), expected, allowed);
}

void check_backward(Report& report, at::ScalarType dtype, const Size& s) {
  const at::Tensor x = normal({s.N, s.in}, dtype), w = normal({s.out, s.in}, dtype), d_y = normal({s.N, s.out}, dtype);
  const std::string name = text_of(dtype, {s.N, s.in, s.out});
  const Columns d_y_columns(d_y);
  for (const bool accumulate : {false, true}) {
    const std::string how = accumulate ? " accumulate " : " ";
    const at::Tensor old_x = normal({s.N, s.in}, dtype);
    at::Tensor expected = wide(old_x).clone();
    linear_backward_input(expected, wide(d_y), wide(w), 2, accumulate);
    for (const bool columns : {false, true}) {
      const at::Tensor d_x = to_device(accumulate ? old_x : nan({s.N, s.in}, dtype));
      cuda::linear_backward_input(d_x, columns ? d_y_columns.y() : to_device(d_y), to_device(w), 2, accumulate);
      expect_close(report, "linear_backward_input" + std::string(columns ? " of columns" : "") + how + name, d_x,
                   expected, one_rounding(dtype));
    }
    for (const at::ScalarType d_w_dtype : {dtype, at::kFloat}) {
      const at::Tensor old_w = normal({s.out, s.in}, d_w_dtype);
      expected = wide(old_w).clone();
      linear_backward_weight(expected, wide(d_y), wide(x), accumulate, 0.25F);
      const at::Tensor d_w = to_device(accumulate ? old_w : nan({s.out, s.in}, d_w_dtype));
      cuda::linear_backward_weight(d_w, d_y_columns.y(), to_device(x), accumulate, 0.25F);
      expect_close(report, "linear_backward_weight into " + text_of(d_w_dtype, {}) + how + name, d_w, expected,
                   one_rounding(d_w_dtype));
    }
  }
}

void check_gelu(Report& report, at::ScalarType dtype, int64_t N, int64_t C, int64_t F) {
  const std::string name = text_of(dtype, {N, C, F});
  const at::Tensor x = normal({N, C}, dtype), w = normal({F, C}, dtype, 0, 0.1), bias = normal({F}, dtype);
  const at::Tensor up = to_device(nan({N, F}, dtype)), out = to_device(nan({N, F}, dtype));
  cuda::linear_gelu_forward(out, up, to_device(x), to_device(w), to_device(bias));
  at::Tensor expected_up = at::empty({N, F}, at::TensorOptions(at::kFloat)), expected = at::empty_like(expected_up);
  linear_forward(expected_up, wide(x), wide(w));
  bias_gelu_forward(expected, expected_up, wide(bias));
  expect_close(report, "linear_gelu_forward up " + name, up, expected_up, one_rounding(dtype));
  expect_close(report, "linear_gelu_forward " + name, out, expected, one_rounding(dtype));

  const at::Tensor d_y = normal({N, C}, dtype), down = normal({C, F}, dtype);
  const at::Tensor d_up = to_device(nan({N, F}, dtype));
  cuda::linear_gelu_backward_input(d_up, to_device(d_y), to_device(down), up);
  linear_backward_input(expected, wide(d_y), wide(down));
  bias_gelu_backward(expected, expected, wide(up.cpu()), {});
  expect_close(report, "linear_gelu_backward_input " + name, d_up, expected, one_rounding(dtype));
}

void check_candidates(Report& report) {
  const at::Tensor x = normal({384, 512}, at::kBFloat16), w = normal({640, 512}, at::kBFloat16);
  at::Tensor expected = at::empty({384, 640}, at::TensorOptions(at::kFloat));
  linear_forward(expected, wide(x), wide(w));
  const at::Tensor on_x = to_device(x), on_w = to_device(w), y = to_device(nan({384, 640}, at::kBFloat16));
  // Every candidate in a trial, then each as the one chosen.
  MatmulTimes product;
  int rounds = 1;
  for (int round = 0; round < rounds; ++round) {
    y.zero_();
    begin_matmul_trial(round);
    cuda::linear_forward(y, on_x, on_w);
    end_matmul_trial();
    expect_close(report, fmt::format("candidate {} in a trial", round), y, expected, one_rounding(at::kBFloat16));
    const std::vector<MatmulTimes> all = take_matmul_times();
    report.add(all.size() == 1, "products of a trial", fmt::format("{} of 1", all.size()));
    if (all.size() != 1) return;
    product = all.front();
    rounds = static_cast<int>(product.algorithms.size());
    const std::vector<float>& times = product.milliseconds[static_cast<size_t>(round)];
    report.add(times.size() == 1 && times[0] > 0 && times[0] < 100, "time of a trial",
               fmt::format("candidate {}: {} times", round, times.size()));
  }
  report.add(take_matmul_times().empty(), "times are taken once", "more were left");
  for (const std::string& algorithm : product.algorithms) {
    use_matmul_algorithms({{{product.product, algorithm}}});
    y.zero_();
    cuda::linear_forward(y, on_x, on_w);
    expect_close(report, "chosen algorithm " + algorithm, y, expected, one_rounding(at::kBFloat16));
  }
  // What the library does not take is left out, with a warning.
  const std::string other(product.algorithms.front().size(), 'f');
  for (const std::string& bad : {std::string("no algorithm"), std::string(), other}) {
    use_matmul_algorithms({{{product.product, bad}}});
    y.zero_();
    cuda::linear_forward(y, on_x, on_w);
    expect_close(report, "after a bad algorithm", y, expected, one_rounding(at::kBFloat16));
  }
  use_matmul_algorithms({{{product.product, product.algorithms.front()}}});
}

void check_errors(Report& report) {
  const at::Tensor x = to_device(normal({4, 8}, at::kFloat)), w = to_device(normal({6, 8}, at::kFloat)),
                   y = to_device(normal({4, 6}, at::kFloat));
  expect_error(report, "y of another shape", "shape [4, 6], expected [4, 5]",
               [&] { cuda::linear_forward(y, x, w.narrow(0, 0, 5)); });
  expect_error(report, "w of another dtype", "dtype", [&] { cuda::linear_forward(y, x, w.to(at::kHalf)); });
  expect_error(report, "x on the CPU", "x is on cpu", [&] { cuda::linear_forward(y, x.cpu(), w); });
  expect_error(report, "columns of w", "w is not contiguous",
               [&] { cuda::linear_forward(y, x.narrow(1, 0, 4).contiguous(), w.narrow(1, 0, 4)); });
  expect_error(report, "bias missing its size", "bias: shape", [&] { cuda::linear_forward(y, x, w, x.view({-1})); });
  expect_error(report, "fp32 GELU", "no GELU in it",
               [&] { cuda::linear_gelu_forward(y, y.clone(), x, w, to_device(normal({6}, at::kFloat))); });
}

}  // namespace

void check_products(Report& report) {
  for (const at::ScalarType dtype : kDTypes)
    for (const Size& size : kSizes) {
      check_forward(report, dtype, size);
      check_backward(report, dtype, size);
    }
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const Size& s : {Size{1, 8, 8}, {33, 40, 160}, {257, 96, 384}, {0, 8, 16}})
      check_gelu(report, dtype, s.N, s.in, s.out);
  check_candidates(report);
  check_errors(report);
}

void time_flops(const std::string& name, double flops, const std::function<void()>& run) {
  constexpr size_t kRuns = 20;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  for (int i = 0; i < 3; ++i) run();
  std::vector<cudaEvent_t> events(kRuns + 1);
  for (cudaEvent_t& event : events) PARTITA_CUDA_CHECK(cudaEventCreate(&event));
  PARTITA_CUDA_CHECK(cudaEventRecord(events[0], stream));
  for (size_t i = 1; i < events.size(); ++i) {
    run();
    PARTITA_CUDA_CHECK(cudaEventRecord(events[i], stream));
  }
  PARTITA_CUDA_CHECK(cudaStreamSynchronize(stream));
  std::vector<float> milliseconds(kRuns);
  for (size_t i = 0; i < kRuns; ++i)
    PARTITA_CUDA_CHECK(cudaEventElapsedTime(&milliseconds[i], events[i], events[i + 1]));
  for (cudaEvent_t event : events) PARTITA_CUDA_CHECK(cudaEventDestroy(event));
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRuns / 2, milliseconds.end());
  const double seconds = milliseconds[kRuns / 2] * 1e-3;
  fmt::print("{:<58} {:9.1f} us {:7.1f} TFLOP/s\n", name, seconds * 1e6, flops / seconds * 1e-12);
}

// The linears of gpu-ceilings' models: GPT-2 124M and 1.5B, Llama 1.1B and 7B.
void time_products() {
  struct Layer {
    const char* name;
    int64_t N, in, out;
    bool bias;
  };
  const auto half = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  for (const Layer& l : {Layer{"124M qkv", 65536, 768, 2304, true},
                         {"1.5B qkv", 8192, 1600, 4800, true},
                         {"1.1B qkv", 16384, 2048, 2560, false},
                         {"1.1B gate+up", 16384, 2048, 11264, false},
                         {"1.1B down", 16384, 5632, 2048, false},
                         {"7B gate+up", 8192, 4096, 22016, false},
                         {"1.1B head, 8192 rows", 8192, 2048, 32000, false}}) {
    const at::Tensor x = at::randn({l.N, l.in}, half), w = at::randn({l.out, l.in}, half),
                     y = at::empty({l.N, l.out}, half), bias = at::randn({l.out}, half), d_x = at::empty_like(x),
                     d_w = at::empty_like(w), d_w32 = at::zeros_like(w, half.dtype(at::kFloat));
    const double flops = 2.0 * static_cast<double>(l.N) * static_cast<double>(l.in) * static_cast<double>(l.out);
    const std::string name = std::string("bf16 ") + l.name;
    time_flops(name + (l.bias ? " forward, bias" : " forward"), flops,
               [&] { cuda::linear_forward(y, x, w, l.bias ? bias : at::Tensor()); });
    time_flops(name + " gradient of x", flops, [&] { cuda::linear_backward_input(d_x, y, w); });
    time_flops(name + " gradient of w", flops, [&] { cuda::linear_backward_weight(d_w, y, x, false); });
    time_flops(name + " gradient of w, fp32 +=", flops, [&] { cuda::linear_backward_weight(d_w32, y, x, true); });
  }
  for (const auto& [name, N, C] :
       {std::tuple<const char*, int64_t, int64_t>{"124M", 65536, 768}, {"1.5B", 8192, 1600}}) {
    const int64_t F = 4 * C;
    const at::Tensor x = at::randn({N, C}, half), w = at::randn({F, C}, half), bias = at::randn({F}, half),
                     up = at::empty({N, F}, half), out = at::empty({N, F}, half), down = at::randn({C, F}, half),
                     d_up = at::empty({N, F}, half);
    const double flops = 2.0 * static_cast<double>(N) * static_cast<double>(C) * static_cast<double>(F);
    time_flops(fmt::format("bf16 {} up with GELU", name), flops,
               [&] { cuda::linear_gelu_forward(out, up, x, w, bias); });
    time_flops(fmt::format("bf16 {} gradient of down's input with GELU", name), flops,
               [&] { cuda::linear_gelu_backward_input(d_up, x, down, up); });
  }
  const at::Tensor x = at::randn({8192, 2048}, half.dtype(at::kFloat)), w = at::randn({2048, 2048}, x.options()),
                   y = at::empty({8192, 2048}, x.options());
  time_flops("fp32 [8192, 2048, 2048] forward", 2.0 * 8192 * 2048 * 2048, [&] { cuda::linear_forward(y, x, w); });
  fmt::print("workspace {:.0f} MiB\n", static_cast<double>(cuda::workspace_bytes()) / (1 << 20));
}

}  // namespace partita::internal::ops_cuda
