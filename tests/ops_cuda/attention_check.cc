#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "partita/ops/attention.h"
#include "partita/ops/cuda/attention.h"
#include "partita/ops/cuda/attention_self_check.h"
#include "partita/ops/cuda/workspace.h"
#include "tests/ops_cuda/libs_check.h"

namespace partita::internal::ops_cuda {
namespace {

struct Case {
  int64_t samples, length;
  Heads heads;
  [[nodiscard]] int64_t row() const { return (heads.heads + 2 * heads.kv_heads) * heads.head_width; }
  [[nodiscard]] int64_t out_row() const { return heads.heads * heads.head_width; }
  [[nodiscard]] std::string text(at::ScalarType dtype) const {
    return text_of(dtype, {samples, length}) +
           fmt::format(" heads {}/{} of {}", heads.heads, heads.kv_heads, heads.head_width);
  }
};

// Of softmax weights and outputs that are rounded to the dtype before the products, as cuDNN does. The worst elements
// are gradients of the first few positions, which have few keys, so that the differences that their products add are
// large and cancel: seen up to 5.7% in bf16 and 1.2% in fp16, where typical errors are at most 0.3% and 0.034%.
double allowed(at::ScalarType dtype) { return dtype == at::kFloat ? 2e-5 : dtype == at::kBFloat16 ? 0.12 : 0.02; }
double typical(at::ScalarType dtype) { return dtype == at::kFloat ? 1e-6 : dtype == at::kBFloat16 ? 4e-3 : 5e-4; }

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }
at::Tensor fp32(at::IntArrayRef shape) { return at::empty(shape, at::TensorOptions(at::kFloat)); }

// Documents of random lengths.
at::Tensor documents(int64_t samples, int64_t length) {
  const at::Tensor first = at::zeros({samples, length}, at::TensorOptions(at::kInt));
  const at::Tensor random = integers({samples, length}, 6);
  for (int64_t s = 0; s < samples; ++s)
    for (int64_t t = 1, begin = 0; t < length; ++t) {
      if (random.const_data_ptr<int32_t>()[s * length + t] == 0) begin = t;
      first.mutable_data_ptr<int32_t>()[s * length + t] = static_cast<int32_t>(begin);
    }
  return first;
}

// Forward and backward against the CPU's in fp32; `dropped` and `dropped_on_device` name the same mask.
void check_case(Report& report, at::ScalarType dtype, const Case& c, const at::Tensor& first_keys = {},
                const Dropout& dropped = {}, const Dropout& dropped_on_device = {}, const std::string& note = "") {
  const std::string name = c.text(dtype) + note;
  const at::Tensor qkv = normal({c.samples, c.length, c.row()}, dtype),
                   d_out = normal({c.samples, c.length, c.out_row()}, dtype);
  at::Tensor out = fp32({c.samples, c.length, c.out_row()}), log_sum = fp32({c.samples, c.heads.heads, c.length}),
             d_qkv = fp32(qkv.sizes());
  attention_forward(out, log_sum, wide(qkv), c.heads, dropped, first_keys);
  attention_backward(d_qkv, wide(d_out), out, log_sum, wide(qkv), c.heads, dropped, first_keys);

  const at::Tensor on_qkv = to_device(qkv), on_first_keys = to_device(first_keys), on_d_out = to_device(d_out);
  const at::Tensor on_out = to_device(nan(out.sizes(), dtype)), on_log_sum = to_device(nan(log_sum.sizes()));
  cuda::attention_forward(on_out, on_log_sum, on_qkv, c.heads, dropped_on_device, on_first_keys);
  expect_rounded(report, "attention " + name, on_out, out, typical(dtype), allowed(dtype));
  expect_close(report, "attention log_sum " + name, on_log_sum, log_sum, dtype == at::kFloat ? 1e-5 : 1e-3);
  if (dropped.p == 0) {
    const at::Tensor alone = to_device(nan(out.sizes(), dtype));
    cuda::attention_forward(alone, {}, on_qkv, c.heads, {}, on_first_keys);
    expect_rounded(report, "attention without log_sum " + name, alone, out, typical(dtype), allowed(dtype));
  }
  for (const bool deterministic : {false, true}) {
    const std::string how = deterministic ? " repeatable " : " ";
    at::Tensor first;
    for (int run = 0; run < (deterministic ? 2 : 1); ++run) {
      const at::Tensor on_d_qkv = to_device(nan(qkv.sizes(), dtype));
      cuda::attention_backward(on_d_qkv, on_d_out, on_out, on_log_sum, on_qkv, c.heads, dropped_on_device,
                               on_first_keys, {}, {}, deterministic);
      if (run == 0)
        first = on_d_qkv;
      else
        expect_same_bits(report, "attention_backward again " + name, on_d_qkv, first.cpu());
    }
    // Together: the gradients of q and k of a short sequence are differences of what is rounded on the scale of v's.
    expect_rounded(report, "attention_backward" + how + name, first, d_qkv, typical(dtype), allowed(dtype));
  }
}

// One rank's pieces of sequences against the CPU's in fp32: cuDNN where there is neither dropout nor documents.
void check_context(Report& report, at::ScalarType dtype, const Case& c, const ContextSplit& split, bool masked) {
  const StepScalars now{.seed = 11, .step = 3};
  const DeviceScalars device_now(now);
  const at::Tensor samples = at::arange(7, 7 + c.samples, at::TensorOptions(at::kLong));
  // Whole documents, and the pieces' part of them.
  at::Tensor first_keys;
  if (masked) {
    const at::Tensor whole = documents(c.samples, split.ranks * c.length);
    const int64_t run = split.run(c.length);
    const auto [first, second] = split.pieces(split.rank);
    first_keys = at::cat({whole.narrow(1, first * run, run), whole.narrow(1, second * run, run)}, 1);
  }
  const float p = masked ? 0.2F : 0;
  const Dropout dropped{.p = p, .site = 9, .now = &now, .samples = samples},
      dropped_on_device{.p = p, .site = 9, .now = device_now.get(), .samples = to_device(samples)};
  const std::string name = "attention of pieces " + c.text(dtype) +
                           fmt::format(" rank {} of {}{}", split.rank, split.ranks, masked ? " documents" : "");
  const int64_t kv = 2 * c.heads.kv_heads * c.heads.head_width, q = c.out_row();
  const at::Tensor qkv = normal({c.samples, c.length, c.row()}, dtype),
                   keys = normal({c.samples, split.ranks * c.length, kv}, dtype),
                   d_out = normal({c.samples, c.length, q}, dtype);
  const at::Tensor out = fp32(d_out.sizes()), log_sum = fp32({c.samples, c.heads.heads, c.length}),
                   d_qkv = fp32(qkv.sizes()), d_keys = fp32(keys.sizes());
  const WholeKeys all{.keys_values = wide(keys), .split = split},
      on_all{.keys_values = to_device(keys), .split = split};
  attention_forward(out, log_sum, wide(qkv), c.heads, dropped, first_keys, all);

  const at::Tensor on_qkv = to_device(qkv), on_first_keys = to_device(first_keys),
                   on_out = to_device(nan(out.sizes(), dtype)), on_log_sum = to_device(nan(log_sum.sizes()));
  cuda::attention_forward(on_out, on_log_sum, on_qkv, c.heads, dropped_on_device, on_first_keys, on_all);
  expect_rounded(report, name, on_out, out, typical(dtype), allowed(dtype));
  const int64_t run = split.run(c.length);
  const at::Tensor run_after_run =
      at::cat({log_sum.narrow(2, 0, run).reshape({-1}), log_sum.narrow(2, run, c.length - run).reshape({-1})});
  expect_close(report, name + " log_sum", on_log_sum.view({-1}), run_after_run, dtype == at::kFloat ? 1e-5 : 1e-3);
  // From the same rounded output: of few positions, its rounding would be most of the error of the query gradients.
  attention_backward(d_qkv, wide(d_out), wide(on_out.cpu()), log_sum, wide(qkv), c.heads, dropped, first_keys, all,
                     d_keys);
  for (const bool deterministic : {false, true}) {
    const at::Tensor on_d_qkv = to_device(nan(qkv.sizes(), dtype)), on_d_keys = to_device(nan(keys.sizes(), dtype));
    cuda::attention_backward(on_d_qkv, to_device(d_out), on_out, on_log_sum, on_qkv, c.heads, dropped_on_device,
                             on_first_keys, on_all, on_d_keys, deterministic);
    const std::string how = name + (deterministic ? " repeatable backward" : " backward");
    // Query gradients alone, without those of keys and values: of few positions, their typical error is larger.
    expect_rounded(report, how, on_d_qkv.narrow(2, 0, q).contiguous(), d_qkv.narrow(2, 0, q).contiguous(),
                   (c.length <= 8 ? 2 : 1) * typical(dtype), allowed(dtype));
    expect_rounded(report, how + " of keys", on_d_keys, d_keys, 2 * typical(dtype), allowed(dtype));
  }
}

// cuDNN's mask, read off an output whose values are unit vectors, put into the formulas in fp64.
void check_cudnn_dropout(Report& report, at::ScalarType dtype, float p) {
  constexpr int64_t kLength = 64, kHeads = 3, kWidth = 64;
  const Case c{2, kLength, {.heads = kHeads, .kv_heads = kHeads, .head_width = kWidth}};
  const DeviceScalars now({.seed = 5, .step = 7});
  const at::Tensor samples = to_device(at::arange(10, 10 + c.samples, at::TensorOptions(at::kLong)));
  const Dropout dropout{.p = p, .site = 3, .now = now.get(), .samples = samples};
  const std::string name = "cuDNN dropout " + text_of(dtype, {}) + fmt::format(" {}", p);
  const at::Tensor qkv = normal({c.samples, kLength, 3, kHeads, kWidth}, dtype),
                   d_out = normal({c.samples, kLength, c.out_row()}, dtype);
  const auto run = [&](const at::Tensor& packed, const Dropout& how) {
    const at::Tensor out = to_device(nan({c.samples, kLength, c.out_row()}, dtype)),
                     log_sum = to_device(nan({c.samples, kHeads, kLength}));
    cuda::attention_forward(out, log_sum, to_device(packed.view({c.samples, kLength, c.row()})), c.heads, how);
    return std::pair(out, log_sum);
  };
  // [samples, heads, length, width] in fp64.
  const auto part = [&](const at::Tensor& packed, int64_t index) {
    return packed.view({c.samples, kLength, 3, kHeads, kWidth}).select(2, index).permute({0, 2, 1, 3}).to(at::kDouble);
  };
  const auto by_head = [&](const at::Tensor& t) {
    return t.view({c.samples, kLength, kHeads, kWidth}).permute({0, 2, 1, 3}).to(at::kDouble);
  };
  const at::Tensor unit = qkv.clone();
  unit.select(2, 2).copy_(
      at::eye(kLength).to(dtype).view({1, kLength, 1, kWidth}).expand({c.samples, kLength, kHeads, kWidth}));
  const at::Tensor dropped = by_head(run(unit, dropout).first.cpu());
  expect_same_bits(report, name + " again", run(unit, dropout).first, run(unit, dropout).first.cpu());
  Dropout other = dropout;
  other.site = 4;
  report.add(!run(unit, other).first.equal(run(unit, dropout).first), name, "another site has another mask");
  other = dropout;
  other.first_head = kHeads;
  report.add(!run(unit, other).first.equal(run(unit, dropout).first), name, "other heads have another mask");

  const at::Tensor q = part(qkv, 0), k = part(qkv, 1), v = part(qkv, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(kWidth));
  const at::Tensor causal = at::ones({kLength, kLength}, at::kBool).tril();
  const at::Tensor scores = (at::matmul(q, k.transpose(2, 3)) * scale)
                                .masked_fill(causal.logical_not(), -std::numeric_limits<double>::infinity());
  const at::Tensor probability = at::softmax(scores, 3), kept = (dropped > 0.5 * probability).logical_and(causal);
  const at::Tensor mask = kept.to(at::kDouble) / (1 - static_cast<double>(p));
  const double seen = static_cast<double>(causal.sum().item<int64_t>() * c.samples * kHeads);
  const double share = static_cast<double>(kept.sum().item<int64_t>()) / seen;
  report.add(std::abs(share - (1 - p)) < 5 * std::sqrt(p * (1 - p) / seen), name, fmt::format("{:.4f} kept", share));
  expect_rounded(report, name + " values", dropped, probability * mask, typical(dtype), allowed(dtype));

  const auto [out, log_sum] = run(qkv, dropout);
  expect_rounded(report, name + " output", by_head(out.cpu()), at::matmul(probability * mask, v), typical(dtype),
                 allowed(dtype));
  const at::Tensor g = by_head(d_out), d_weight = mask * at::matmul(g, v.transpose(2, 3));
  const at::Tensor d_score = probability * (d_weight - (probability * d_weight).sum(3, true)) * scale;
  for (const bool deterministic : {false, true}) {
    const at::Tensor d_qkv = to_device(nan({c.samples, kLength, c.row()}, dtype));
    cuda::attention_backward(d_qkv, to_device(d_out), out, log_sum, to_device(qkv.view({c.samples, kLength, c.row()})),
                             c.heads, dropout, {}, {}, {}, deterministic);
    const at::Tensor found = d_qkv.cpu();
    const std::string how = name + (deterministic ? " repeatable" : "");
    expect_rounded(report, how + " d_q", part(found, 0), at::matmul(d_score, k), typical(dtype), allowed(dtype));
    expect_rounded(report, how + " d_k", part(found, 1), at::matmul(d_score.transpose(2, 3), q), typical(dtype),
                   allowed(dtype));
    expect_rounded(report, how + " d_v", part(found, 2), at::matmul((probability * mask).transpose(2, 3), g),
                   typical(dtype), allowed(dtype));
  }
}

}  // namespace

void check_attention(Report& report) {
  const std::vector<Case> cases = {
      {1, 1, {1, 1, 64}},   {2, 3, {2, 1, 64}},   {1, 17, {4, 2, 32}},  {2, 63, {3, 3, 128}}, {2, 65, {4, 1, 64}},
      {1, 128, {2, 2, 80}}, {1, 200, {2, 1, 96}}, {3, 100, {4, 2, 8}},  {1, 33, {2, 1, 7}},   {1, 50, {2, 2, 256}},
      {1, 40, {1, 1, 160}}, {2, 130, {6, 2, 20}}, {1, 300, {2, 1, 64}}, {2, 0, {2, 1, 64}},   {0, 5, {2, 1, 64}},
      {1, 513, {4, 4, 64}}, {2, 256, {8, 2, 128}}};
  for (const at::ScalarType dtype : kDTypes)
    for (const Case& c : cases) {
      check_case(report, dtype, c);
      if (c.length > 0 && c.length < 200)
        check_case(report, dtype, c, documents(c.samples, c.length), {}, {}, " documents");
    }
  for (const at::ScalarType dtype : kDTypes)
    for (const Case& c : std::vector<Case>{
             {1, 2, {1, 1, 64}}, {2, 6, {2, 1, 20}}, {2, 128, {4, 2, 64}}, {1, 256, {3, 3, 128}}, {2, 90, {4, 1, 64}}})
      for (const int ranks : {2, 3})
        for (int rank = 0; rank < ranks; ++rank)
          for (const bool masked : {false, true})
            check_context(report, dtype, c, {.rank = rank, .ranks = ranks}, masked);
  const at::Tensor qkv = to_device(normal({1, 4, 3 * 264}, at::kHalf)), out = to_device(normal({1, 4, 264}, at::kHalf));
  expect_error(report, "wide heads", "takes up to 256", [&] {
    cuda::attention_forward(out, {}, qkv, {1, 1, 264}, {});
  });
  expect_error(report, "heads that do not divide", "do not divide among", [&] {
    cuda::attention_forward(out, {}, qkv, {3, 2, 64}, {});
  });
  expect_error(report, "out of another shape", "out: shape", [&] {
    cuda::attention_forward(out.narrow(1, 0, 3), {}, qkv, {3, 3, 88}, {});
  });
  expect_error(report, "dropout of everything", "not in [0, 1)", [&] {
    cuda::attention_forward(out, {}, qkv, {3, 3, 88}, {.p = 1});
  });
}

void check_attention_at_start(Report& report) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const bool deterministic : {false, true})
      for (const Case& c : {Case{3, 200, {4, 2, 64}},
                            {1, 1024, {8, 8, 128}},
                            {2, 33, {2, 1, 20}},
                            {2, 64, {4, 4, 16}},
                            {1, 1, {3, 3, 64}},
                            {4, 2048, {32, 4, 64}}}) {
        // Far from its bound for any numbers, so that the check at the start of a run never refuses a sound library.
        const double half = cuda::allowed_attention_difference(dtype) / 2;
        cuda::AttentionDifference worst;
        bool passed = true;
        for (uint64_t seed = 0; seed < 20; ++seed) {
          // A rank of one, and both of two.
          const ContextSplit context{.rank = static_cast<int>(seed % 2),
                                     .ranks = c.length % 2 == 0 && seed > 9 ? 2 : 1};
          const auto found = cuda::attention_difference(dtype, c.samples, c.length, c.heads, deterministic, seed,
                                                        context.cuts() ? context : ContextSplit{});
          passed = passed && found.forward <= half && found.backward <= half;  // NaN is not
          worst = {std::max(worst.forward, found.forward), std::max(worst.backward, found.backward)};
        }
        report.add(
            passed, "attention_difference " + c.text(dtype) + (deterministic ? " repeatable" : ""),
            fmt::format("{:.3g} forward, {:.3g} backward, at most {} expected", worst.forward, worst.backward, half));
      }
}

// Our own kernels: the second of two groups of heads, packed alone, drops what it drops among all heads.
void check_group_of_heads(Report& report, at::ScalarType dtype) {
  const Case all{2, 37, {6, 2, 20}}, group{2, 37, {3, 1, 20}};
  const DeviceScalars now({.seed = 5, .step = 7});
  const at::Tensor samples = to_device(at::arange(10, 12, at::TensorOptions(at::kLong)));
  const Dropout dropout{.p = 0.3F, .site = 3, .now = now.get(), .samples = samples};
  const at::Tensor qkv = to_device(normal({2, 37, all.row()}, dtype)),
                   d_out = to_device(normal({2, 37, all.out_row()}, dtype));
  // Query heads 3 to 5, key head 1 and value head 1.
  const auto heads = [](const at::Tensor& t) {
    return at::cat({t.narrow(2, 3 * 20, 3 * 20), t.narrow(2, 7 * 20, 20), t.narrow(2, 9 * 20, 20)}, 2).contiguous();
  };
  const auto run = [&](const Case& c, const at::Tensor& packed, const at::Tensor& d, const Dropout& how) {
    const at::Tensor out = to_device(nan(d.sizes(), dtype)), log_sum = to_device(nan({2, c.heads.heads, 37}));
    const at::Tensor d_packed = to_device(nan(packed.sizes(), dtype));
    cuda::attention_forward(out, log_sum, packed, c.heads, how);
    cuda::attention_backward(d_packed, d, out, log_sum, packed, c.heads, how, {}, {}, {}, true);
    return std::pair(out, d_packed);
  };
  const auto columns = [](const at::Tensor& t) { return t.narrow(2, 3 * 20, 3 * 20).contiguous(); };
  const auto [out, d_qkv] = run(all, qkv, d_out, dropout);
  Dropout of_group = dropout;
  of_group.first_head = 3;
  const auto [out_of_group, d_qkv_of_group] = run(group, heads(qkv), columns(d_out), of_group);
  const std::string name = "a group of heads " + text_of(dtype, {});
  expect_same_bits(report, name, out_of_group, columns(out));
  expect_same_bits(report, name + " backward", d_qkv_of_group, heads(d_qkv));
}

void check_attention_dropout(Report& report) {
  const StepScalars now{.seed = 11, .step = 3};
  const DeviceScalars on_device(now);
  const at::Tensor samples = at::arange(7, 41, 33, at::TensorOptions(at::kLong));
  const Dropout dropped{.p = 0.2F, .site = 9, .now = &now, .samples = samples},
      dropped_on_device{.p = 0.2F, .site = 9, .now = on_device.get(), .samples = to_device(samples)};
  for (const at::ScalarType dtype : kDTypes)
    for (const Case& c : {Case{2, 37, {4, 2, 20}}, {2, 70, {2, 1, 12}}, {2, 1, {2, 2, 5}}})
      check_case(report, dtype, c, c.length == 37 ? documents(2, 37) : at::Tensor(), dropped, dropped_on_device,
                 " dropout of the CPU");
  for (const at::ScalarType dtype : kDTypes) check_group_of_heads(report, dtype);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const float p : {0.1F, 0.5F}) check_cudnn_dropout(report, dtype, p);
}

void check_attention_cached(Report& report) {
  for (const at::ScalarType dtype : kDTypes)
    for (const Heads heads : {Heads{4, 2, 64}, {2, 1, 20}, {3, 3, 7}, {8, 1, 128}})
      for (const auto& [past, count] :
           {std::pair<int64_t, int64_t>{0, 1}, {0, 9}, {5, 1}, {100, 3}, {1500, 1}, {33, 20}}) {
        const Case c{2, count, heads};
        const int64_t capacity = past + count + 3;
        const std::string name = c.text(dtype) + fmt::format(" behind {}", past);
        const at::Tensor qkv = normal({2, count, c.row()}, dtype),
                         keys = normal({2, heads.kv_heads, capacity, heads.head_width}, dtype),
                         values = normal(keys.sizes(), dtype);
        const at::Tensor on_keys = to_device(keys), on_values = to_device(values),
                         on_out = to_device(nan({2, count, c.out_row()}, dtype));
        cuda::attention_cached(on_out, to_device(qkv), on_keys, on_values, past, heads);
        at::Tensor out = fp32({2, count, c.out_row()}), wide_keys = wide(keys), wide_values = wide(values);
        if (dtype == at::kFloat) wide_keys = keys.clone(), wide_values = values.clone();
        attention_cached(out, wide(qkv), wide_keys, wide_values, past, heads);
        expect_rounded(report, "attention_cached " + name, on_out, out, typical(dtype), allowed(dtype));
        expect_same_bits(report, "attention_cached keys " + name, on_keys, wide_keys.to(dtype));
        expect_same_bits(report, "attention_cached values " + name, on_values, wide_values.to(dtype));
      }
  const at::Tensor qkv = to_device(normal({1, 4, 24}, at::kFloat)), keys = to_device(normal({1, 1, 6, 8}, at::kFloat)),
                   out = to_device(normal({1, 4, 8}, at::kFloat));
  expect_error(report, "no room for keys", "4 positions behind 3 in memory for 6", [&] {
    cuda::attention_cached(out, qkv, keys, keys.clone(), 3, {1, 1, 8});
  });
}

void time_attention() {
  struct Model {
    const char* name;
    Case c;
  };
  const auto half = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const DeviceScalars now({.seed = 1, .step = 2});
  for (const Model& m : {Model{"124M", {64, 1024, {12, 12, 64}}},
                         {"1.5B", {8, 1024, {25, 25, 64}}},
                         {"1.1B", {8, 2048, {32, 4, 64}}},
                         {"7B", {2, 4096, {32, 32, 128}}}}) {
    const Case& c = m.c;
    const at::Tensor qkv = at::randn({c.samples, c.length, c.row()}, half),
                     out = at::empty({c.samples, c.length, c.out_row()}, half), d_out = at::randn_like(out),
                     d_qkv = at::empty_like(qkv),
                     log_sum = at::empty({c.samples, c.heads.heads, c.length}, half.dtype(at::kFloat)),
                     samples = at::zeros({c.samples}, half.dtype(at::kLong));
    const double flops = 2.0 * static_cast<double>(c.samples * c.heads.heads * c.heads.head_width) *
                         static_cast<double>(c.length * c.length);
    for (const float p : {0.0F, 0.1F}) {
      const Dropout dropout{.p = p, .site = 1, .now = now.get(), .samples = samples};
      const std::string name = fmt::format("attention bf16 {}{}", m.name, p > 0 ? " dropout" : "");
      time_flops(name + " forward", flops, [&] { cuda::attention_forward(out, log_sum, qkv, c.heads, dropout); });
      for (const bool deterministic : {false, true})
        time_flops(name + (deterministic ? " backward, repeatable" : " backward"), 2.5 * flops, [&] {
          cuda::attention_backward(d_qkv, d_out, out, log_sum, qkv, c.heads, dropout, {}, {}, {}, deterministic);
        });
    }
    for (const bool deterministic : {false, true})
      fmt::print("  workspace{} {:.0f} MiB\n", deterministic ? ", repeatable" : "",
                 static_cast<double>(
                     cuda::attention_workspace(at::kBFloat16, c.samples, c.length, c.heads, 0, deterministic)) /
                     (1 << 20));
  }
  const Case c{2, 1024, {12, 12, 64}};
  const at::Tensor qkv = at::randn({2, 1024, c.row()}, half.dtype(at::kFloat)),
                   out = at::empty({2, 1024, c.out_row()}, qkv.options()), d_qkv = at::empty_like(qkv),
                   log_sum = at::empty({2, 12, 1024}, qkv.options());
  const double flops = 2.0 * 2 * 12 * 64 * 1024 * 1024;
  time_flops("attention fp32 2x1024, plain forward", flops,
             [&] { cuda::attention_forward(out, log_sum, qkv, c.heads, {}); });
  time_flops("attention fp32 2x1024, plain backward", 2.5 * flops,
             [&] { cuda::attention_backward(d_qkv, out, out, log_sum, qkv, c.heads, {}, {}, {}, {}, true); });
  for (const auto& [samples, past] : {std::pair<int64_t, int64_t>{1, 2047}, {8, 2047}, {64, 2047}}) {
    const Heads heads{32, 4, 64};
    const at::Tensor one = at::randn({samples, 1, 40 * 64}, half), keys = at::randn({samples, 4, 2048, 64}, half),
                     values = at::randn_like(keys), answer = at::empty({samples, 1, 32 * 64}, half);
    time_kernel(fmt::format("attention_cached bf16 {} samples behind {}", samples, past),
                2.0 * static_cast<double>(keys.nbytes()),
                [&, past = past] { cuda::attention_cached(answer, one, keys, values, past, heads); });
  }
}

}  // namespace partita::internal::ops_cuda
