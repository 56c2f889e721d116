#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "partita/ops/adamw.h"
#include "partita/ops/cuda/flat.h"
#include "partita/ops/cuda/optimizer.h"
#include "partita/ops/flat.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"
#include "tests/ops_cuda/kernels_check.h"

namespace partita::internal::ops_cuda {
namespace {

struct Case {
  int64_t n, first = 0, offset = 0;
};
const Case kCases[] = {{0}, {1}, {7, 3}, {8, 8}, {1000, 16}, {1001, 5}, {4096, 0, 1}, {300000, 1 << 20}, {33333, 7, 3}};

struct Precision {
  at::ScalarType master;
  at::ScalarType weight;  // the same: none
};
const Precision kPrecisions[] = {
    {at::kFloat, at::kFloat}, {at::kFloat, at::kBFloat16}, {at::kFloat, at::kHalf}, {at::kBFloat16, at::kBFloat16}};

// Master weights, two states, a gradient and the weights of the compute dtype, or a copy of them.
struct Operands {
  at::Tensor master, m, v, gradient, weight;
};
Operands make_operands(const Case& c, const Precision& p) {
  Operands o{normal({c.n}, p.master),
             normal({c.n}, p.master, 0, 0.01),
             normal({c.n}, p.master, 0, 0.01).square_(),
             normal({c.n}, at::kFloat),
             {}};
  if (p.weight != p.master) o.weight = nan({c.n}, p.weight);
  return o;
}
Operands to_device(const Operands& o, int64_t offset) {
  return {ops_cuda::to_device(o.master, offset), ops_cuda::to_device(o.m, offset), ops_cuda::to_device(o.v, offset),
          ops_cuda::to_device(o.gradient, offset), ops_cuda::to_device(o.weight, offset)};
}

// fp32 arithmetic in the same order with the same roundings: bits may differ only where pow of the factors does.
void expect_equal(Report& report, const std::string& name, const Operands& device, const Operands& cpu) {
  const bool rounded = cpu.master.scalar_type() == at::kBFloat16;
  const auto compare = [&](const char* what, const at::Tensor& a, const at::Tensor& e) {
    if (!e.defined()) return;
    // Stochastic rounding of almost the same numbers with the same bits differs in few elements, and by one step there.
    if (rounded) {
      const at::Tensor found = a.cpu();
      const int64_t different = e.numel() == 0 ? 0 : found.ne(e).sum().item<int64_t>();
      report.add(different <= 1 + e.numel() / 1000, name + what, fmt::format("{} of {} differ", different, e.numel()));
    }
    expect_close(report, name + what, a, e, e.scalar_type() == at::kFloat ? 1e-6 : one_rounding(e.scalar_type()));
  };
  compare(" master", device.master, cpu.master);
  compare(" m", device.m, cpu.m);
  compare(" v", device.v, cpu.v);
  compare(" weight", device.weight, cpu.weight);
}

const StepScalars kNow{
    .seed = 11, .step = (int64_t{1} << 32) + 9, .update = 4, .learning_rate = 3e-3F, .gradient_scale = 0.5F};
const StepScalars kSkipped{
    .seed = 11, .step = 9, .update = 4, .learning_rate = 3e-3F, .gradient_scale = 0.5F, .skip = 1};

std::string name_of(const char* rule, const Case& c, const Precision& p) {
  return fmt::format("{} {} beside {} first {}{}", rule, text_of(p.master, {c.n}), text_of(p.weight, {}), c.first,
                     c.offset > 0 ? " not aligned" : "");
}

void check_adamw(Report& report, const Case& c, const Precision& p, const StepScalars& now) {
  const std::string name = name_of("adamw", c, p) + (now.skip != 0 ? " skipped" : "");
  const AdamW adamw{.weight_decay = 0.1};
  const Rounding rounding{.parameter = 12345, .first = c.first};
  const DeviceScalars device_now(now);
  const Operands cpu = make_operands(c, p), device = to_device(cpu, c.offset);
  adamw_step(cpu.master, cpu.m, cpu.v, cpu.gradient, cpu.weight, adamw, &now, rounding);
  cuda::adamw_step(device.master, device.m, device.v, device.gradient, device.weight, adamw, device_now.get(),
                   rounding);
  if (now.skip != 0) {
    expect_same_bits(report, name, device.master, cpu.master);
    return expect_same_bits(report, name + " m", device.m, cpu.m);
  }
  expect_equal(report, name, device, cpu);
}

void check_sgd(Report& report, const Case& c, const Precision& p, double momentum) {
  const std::string name = name_of("sgd", c, p) + (momentum > 0 ? " momentum" : "");
  const Sgd sgd{.momentum = momentum, .weight_decay = 0.1};
  const Rounding rounding{.parameter = 6, .first = c.first};
  const DeviceScalars device_now(kNow);
  Operands cpu = make_operands(c, p), device = to_device(cpu, c.offset);
  cpu.v = device.v = at::Tensor();
  if (momentum == 0) cpu.m = device.m = at::Tensor();
  sgd_step(cpu.master, cpu.m, cpu.gradient, cpu.weight, sgd, &kNow, rounding);
  cuda::sgd_step(device.master, device.m, device.gradient, device.weight, sgd, device_now.get(), rounding);
  expect_equal(report, name, device, cpu);
}

void check_lamb(Report& report, const Case& c, const Precision& p) {
  const std::string name = name_of("lamb", c, p);
  const Lamb lamb{.weight_decay = 0.1};
  const Rounding rounding{.parameter = 77, .first = c.first};
  const DeviceScalars device_now(kNow);
  const Operands cpu = make_operands(c, p), device = to_device(cpu, c.offset);
  const SquaredNorms norms = lamb_measure(cpu.master, cpu.m, cpu.v, cpu.gradient, lamb, &kNow);
  at::Tensor expected = at::zeros({2}, at::TensorOptions(at::kDouble));
  expected.mutable_data_ptr<double>()[0] = norms.weight, expected.mutable_data_ptr<double>()[1] = norms.update;
  const at::Tensor measured = ops_cuda::to_device(at::zeros({2}, at::TensorOptions(at::kDouble))),
                   again = measured.clone();
  cuda::lamb_measure(device.master, device.m, device.v, device.gradient, lamb, device_now.get(), measured);
  cuda::lamb_measure(device.master, device.m, device.v, device.gradient, lamb, device_now.get(), again);
  expect_close(report, name + " norms", measured, expected, 1e-6);
  expect_same_bits(report, name + " norms again", again, measured);
  lamb_step(cpu.master, cpu.m, cpu.v, cpu.gradient, cpu.weight, lamb, lamb_ratio(norms), &kNow, rounding);
  cuda::lamb_step(device.master, device.m, device.v, device.gradient, device.weight, lamb, measured, device_now.get(),
                  rounding);
  expect_equal(report, name, device, cpu);
}

void check_flat(Report& report, const Case& c) {
  for (const at::ScalarType from : kDTypes) {
    const at::Tensor in = normal({c.n}, from), device_in = ops_cuda::to_device(in, c.offset);
    for (const at::ScalarType to : kDTypes) {
      const at::Tensor out = nan({c.n}, to), device_out = ops_cuda::to_device(out, c.offset);
      cast(out, in);
      cuda::cast(device_out, device_in);
      expect_same_bits(report, fmt::format("cast {} to {}", text_of(from, {c.n}), text_of(to, {})), device_out, out);
    }
    for (const bool accumulate : {false, true}) {
      const at::Tensor sum = accumulate ? normal({c.n}, at::kFloat) : nan({c.n});
      const at::Tensor device_sum = ops_cuda::to_device(sum, c.offset);
      add_into(sum, in, accumulate);
      cuda::add_into(device_sum, device_in, accumulate);
      expect_same_bits(report, fmt::format("add_into {}", text_of(from, {c.n})), device_sum, sum);
    }
  }
  const at::Tensor in = normal({c.n}, at::kFloat, 1);
  const at::Tensor sum = at::full({1}, 2.0, at::TensorOptions(at::kDouble)), device_sum = ops_cuda::to_device(sum);
  sum_of_squares(in, sum);
  cuda::sum_of_squares(ops_cuda::to_device(in, c.offset), device_sum);
  expect_close(report, fmt::format("sum of squares {}", c.n), device_sum, sum, 1e-12);
}

}  // namespace

void check_optimizers(Report& report) {
  for (const Case& c : kCases) {
    for (const Precision& p : kPrecisions) {
      check_adamw(report, c, p, kNow);
      check_adamw(report, c, p, kSkipped);
      check_sgd(report, c, p, 0.9);
      check_sgd(report, c, p, 0);
      check_lamb(report, c, p);
    }
    check_flat(report, c);
  }
  const at::Tensor infinite = ops_cuda::to_device(at::full({5}, INFINITY, at::TensorOptions(at::kFloat)));
  const at::Tensor sum = ops_cuda::to_device(at::zeros({1}, at::TensorOptions(at::kDouble)));
  cuda::sum_of_squares(infinite, sum);
  report.add(std::isinf(sum.item<double>()), "sum of squares of infinities", fmt::format("{}", sum.item<double>()));
}

}  // namespace partita::internal::ops_cuda
