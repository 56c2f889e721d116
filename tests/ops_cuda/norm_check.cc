#include "partita/ops/norm.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "partita/ops/cuda/norm.h"
#include "tests/ops_cuda/kernels_check.h"

namespace partita::internal::ops_cuda {
namespace {

struct Case {
  int64_t samples, length, C;
  bool sum = true, bias = true;
  float p = 0;
  bool rms = false;
  int64_t offset = 0;  // elements by which memory is not aligned
};
// Odd and empty forms; a pack, two and four a thread; more rows than run at once; the largest.
const Case kCases[] = {{1, 1, 1},
                       {1, 3, 7},
                       {2, 5, 16, true, true, 0, false, 1},
                       {3, 4, 33, true, false},
                       {2, 9, 100, false},
                       {0, 8, 24},
                       {2, 5, 16, true, true, 0.1F},
                       {3, 7, 33, false, false, 0.5F},
                       {2, 33, 130, true, true, 0.2F},
                       {1, 1, 5, false, true, 0.9F},
                       {4, 40, 384, true, true, 0.1F},
                       {8, 1000, 64},
                       {2, 333, 768, true, true, 0.1F},
                       {1, 517, 1600},
                       {1, 70, 4096, true, true, 0.3F},
                       {1, 70, 5001},
                       {1, 70, 8192},
                       {1, 17, 16384, true, true, 0.1F},
                       {1, 1, 1, true, false, 0, true},
                       {2, 9, 33, true, false, 0, true},
                       {1, 70, 384, false, false, 0, true},
                       {3, 7, 130, true, true, 0.3F, true},
                       {2, 700, 2048, true, false, 0, true},
                       {1, 70, 4096, true, false, 0, true, 3}};

const StepScalars kNow{.seed = 1234, .step = 56};
const std::vector<int64_t> kSamples = {7, 0, (int64_t{5} << 32) + 3, 1000, 5, 6, 1, 2};

std::string name_of(const Case& c, at::ScalarType dtype) {
  return fmt::format("{} norm {}{}{}{}{}", c.rms ? "rms" : "layer", text_of(dtype, {c.samples, c.length, c.C}),
                     c.sum ? "" : " no sum", c.bias ? "" : " no bias", c.p > 0 ? fmt::format(" p {}", c.p) : "",
                     c.offset > 0 ? " not aligned" : "");
}

struct Masks {
  explicit Masks(const Case& c) : now(kNow) {
    const at::Tensor samples = at::zeros({c.samples}, at::TensorOptions(at::kLong));
    std::copy_n(kSamples.begin(), c.samples, samples.mutable_data_ptr<int64_t>());
    cpu = {.p = c.p, .site = 35, .now = &kNow, .samples = samples};
    device = {.p = c.p, .site = 35, .now = now.get(), .samples = to_device(samples)};
  }
  DeviceScalars now;
  Dropout cpu, device;
};

AddNorm on_device(const AddNorm& op, int64_t offset) {
  AddNorm copy;
  copy.sum = to_device(op.sum, offset), copy.branch = to_device(op.branch, offset),
  copy.bias = to_device(op.bias, offset);
  copy.weight = to_device(op.weight, offset), copy.norm_bias = to_device(op.norm_bias, offset);
  copy.residual = to_device(op.residual, offset), copy.normed = to_device(op.normed, offset);
  copy.mean = to_device(op.mean), copy.rstd = to_device(op.rstd);
  return copy;
}

// Rows first .. first + count - 1 of an operation on rows, in its memory.
at::Tensor rows_of(const at::Tensor& t, int64_t first, int64_t count) {
  return t.defined() ? t.narrow(0, first, count) : t;
}
AddNorm part_of(AddNorm op, int64_t first, int64_t count) {
  op.dropout.first_row = first, op.dropout.rows = op.branch.size(0);
  for (at::Tensor* t : {&op.sum, &op.branch, &op.residual, &op.normed, &op.mean, &op.rstd})
    *t = rows_of(*t, first, count);
  return op;
}
AddNormBackward part_of(AddNormBackward op, int64_t first, int64_t count) {
  op.dropout.first_row = first, op.dropout.rows = op.residual.size(0);
  for (at::Tensor* t : {&op.d_normed, &op.d_sum, &op.residual, &op.mean, &op.rstd, &op.d_residual, &op.d_branch})
    *t = rows_of(*t, first, count);
  return op;
}

// A part of the rows, beginning within a sample, has the bits that it has in the whole.
void check_part(Report& report, const std::string& name, const AddNorm& whole) {
  const int64_t rows = whole.branch.size(0), first = rows / 3, count = rows - first;
  AddNorm op = whole;
  op.residual = at::empty_like(whole.residual), op.normed = at::empty_like(whole.normed);
  op.rstd = at::empty_like(whole.rstd);
  const AddNorm part = part_of(op, first, count);
  cuda::add_norm_forward(part);
  expect_same_bits(report, name + " part residual", part.residual, rows_of(whole.residual, first, count));
  expect_same_bits(report, name + " part normed", part.normed, rows_of(whole.normed, first, count));
}
void check_part(Report& report, const std::string& name, const AddNormBackward& whole) {
  const int64_t rows = whole.residual.size(0), first = rows / 3, count = rows - first;
  AddNormBackward op = whole;
  op.d_residual = at::empty_like(whole.d_residual);
  if (whole.d_branch.defined()) op.d_branch = at::empty_like(whole.d_branch);
  op.d_weight = op.d_norm_bias = op.d_bias = {};
  const AddNormBackward part = part_of(op, first, count);
  cuda::add_norm_backward(part);
  expect_same_bits(report, name + " part d_residual", part.d_residual, rows_of(whole.d_residual, first, count));
  if (whole.d_branch.defined())
    expect_same_bits(report, name + " part d_branch", part.d_branch, rows_of(whole.d_branch, first, count));
}

AddNorm check_forward(Report& report, const Case& c, at::ScalarType dtype, const Masks& masks) {
  const std::string name = name_of(c, dtype);
  const int64_t N = c.samples * c.length;
  AddNorm op;
  if (c.sum) op.sum = normal({N, c.C}, dtype);
  op.branch = normal({N, c.C}, dtype);
  if (c.bias) op.bias = normal({c.C}, dtype);
  op.weight = normal({c.C}, dtype, 1, 0.2);
  if (!c.rms) op.norm_bias = normal({c.C}, dtype);
  op.residual = nan({N, c.C}, dtype), op.normed = nan({N, c.C}, dtype);
  if (!c.rms) op.mean = nan({N});
  op.rstd = nan({N});
  AddNorm device = on_device(op, c.offset);
  op.dropout = masks.cpu, device.dropout = masks.device;
  add_norm_forward(op);
  cuda::add_norm_forward(device);
  expect_close(report, name + " residual", device.residual, op.residual, one_rounding(dtype));
  expect_close(report, name + " normed", device.normed, op.normed, one_rounding(dtype));
  if (!c.rms) expect_close(report, name + " mean", device.mean, op.mean, one_rounding(dtype));
  expect_close(report, name + " rstd", device.rstd, op.rstd, one_rounding(dtype));
  if (c.offset == 0) check_part(report, name, device);

  const at::Tensor again = to_device(nan({N, c.C}, dtype), c.offset);
  cuda::norm_recompute(again, device.residual, device.mean, device.rstd, device.weight, device.norm_bias);
  expect_same_bits(report, name + " recomputed", again, device.normed);
  if (c.sum) {
    const at::Tensor residual = device.residual.cpu();
    device.residual = device.sum;  // in place
    cuda::add_norm_forward(device);
    expect_same_bits(report, name + " in place", device.sum, residual);
  }
  return op;
}

void check_backward(Report& report, const Case& c, at::ScalarType dtype, const Masks& masks, const AddNorm& forward) {
  const std::string name = name_of(c, dtype) + " backward";
  const int64_t N = c.samples * c.length;
  AddNormBackward op;
  op.d_normed = normal({N, c.C}, dtype);
  if (c.sum) op.d_sum = normal({N, c.C}, dtype);
  op.residual = forward.residual, op.mean = forward.mean, op.rstd = forward.rstd, op.weight = forward.weight;
  op.d_residual = nan({N, c.C}, dtype);
  if (c.p > 0) op.d_branch = nan({N, c.C}, dtype);
  const bool accumulate = c.C % 2 == 0;
  const auto vector = [&] { return accumulate ? normal({c.C}, at::kFloat) : nan({c.C}); };
  op.d_weight = {vector(), accumulate};
  if (!c.rms) op.d_norm_bias = {vector(), accumulate};
  op.d_bias = {vector(), accumulate};
  const auto target = [](const Target& t) { return Target{to_device(t.gradient), t.accumulate}; };
  AddNormBackward device;
  device.d_normed = to_device(op.d_normed, c.offset), device.d_sum = to_device(op.d_sum, c.offset);
  device.residual = to_device(op.residual, c.offset), device.mean = to_device(op.mean),
  device.rstd = to_device(op.rstd);
  device.weight = to_device(op.weight, c.offset), device.d_residual = to_device(op.d_residual, c.offset);
  device.d_branch = to_device(op.d_branch, c.offset);
  device.dropout = masks.device;
  device.d_weight = target(op.d_weight), device.d_norm_bias = target(op.d_norm_bias), device.d_bias = target(op.d_bias);
  AddNormBackward second = device;
  second.d_weight = target(op.d_weight), second.d_norm_bias = target(op.d_norm_bias), second.d_bias = target(op.d_bias);
  second.d_residual = device.d_normed;  // in place; run last

  op.dropout = masks.cpu;
  add_norm_backward(op);
  cuda::add_norm_backward(device);
  expect_close(report, name + " d_residual", device.d_residual, op.d_residual, one_rounding(dtype));
  if (c.p > 0) expect_close(report, name + " d_branch", device.d_branch, op.d_branch, one_rounding(dtype));
  expect_close(report, name + " d_weight", device.d_weight.gradient, op.d_weight.gradient, one_rounding(dtype));
  if (!c.rms) expect_close(report, name + " d_norm_bias", device.d_norm_bias.gradient, op.d_norm_bias.gradient, 1e-5);
  expect_close(report, name + " d_bias", device.d_bias.gradient, op.d_bias.gradient, one_rounding(dtype));

  if (c.offset == 0) check_part(report, name, device);
  cuda::add_norm_backward(second);
  expect_same_bits(report, name + " in place, again", second.d_residual, device.d_residual);
  expect_same_bits(report, name + " d_weight again", second.d_weight.gradient, device.d_weight.gradient);
  expect_same_bits(report, name + " d_bias again", second.d_bias.gradient, device.d_bias.gradient);
}

}  // namespace

void check_norms(Report& report) {
  for (const at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      const Masks masks(c);
      const AddNorm forward = check_forward(report, c, dtype, masks);
      check_backward(report, c, dtype, masks, forward);
    }
}

}  // namespace partita::internal::ops_cuda
