// Times of all kernels at the sizes of GPT-2 124M (A), GPT-2 1.5B (B) and Llama 1.1B (C), with the bytes each must
// move.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "partita/ops/cuda/activation.h"
#include "partita/ops/cuda/cross_entropy.h"
#include "partita/ops/cuda/dropout_apply.h"
#include "partita/ops/cuda/embedding.h"
#include "partita/ops/cuda/flat.h"
#include "partita/ops/cuda/norm.h"
#include "partita/ops/cuda/normal.h"
#include "partita/ops/cuda/optimizer.h"
#include "partita/ops/cuda/rope.h"
#include "tests/ops_cuda/kernels_check.h"

namespace partita::internal::ops_cuda {
namespace {

at::TensorOptions on(at::ScalarType dtype) { return at::TensorOptions(dtype).device(at::kCUDA); }
at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype = at::kBFloat16) { return at::randn(shape, on(dtype)); }
at::Tensor tokens(at::IntArrayRef shape, int64_t limit) { return at::randint(limit, shape, on(at::kInt)); }

struct Size {
  const char* name;
  int64_t samples, length, C;
  bool rms;
};

void time_normals() {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor out = random({1 << 26}, dtype);
    time_kernel(fmt::format("initial weights {}", text_of(dtype, out.sizes())), static_cast<double>(out.nbytes()),
                [&] { cuda::fill_normal(out, {.std = 0.02F}); });
  }
}

void time_norms(const Size& s) {
  const int64_t N = s.samples * s.length;
  const double elements = static_cast<double>(N * s.C);
  const DeviceScalars now({.seed = 1, .step = 2});
  for (const float p : {0.0F, 0.1F}) {
    if (p > 0 && s.rms) continue;
    const Dropout dropout{.p = p, .site = 1, .now = now.get(), .samples = at::arange(s.samples, on(at::kLong))};
    const std::string name = fmt::format("{}{}", s.name, p > 0 ? ", dropout" : "");
    AddNorm op;
    op.dropout = dropout;
    op.sum = random({N, s.C}), op.branch = random({N, s.C}), op.weight = random({s.C});
    if (!s.rms) op.bias = random({s.C}), op.norm_bias = random({s.C}), op.mean = random({N}, at::kFloat);
    op.residual = random({N, s.C}), op.normed = random({N, s.C}), op.rstd = random({N}, at::kFloat);
    time_kernel(name + ": add and norm", 8 * elements, [&] { cuda::add_norm_forward(op); });
    if (p == 0)
      time_kernel(name + ": norm again", 4 * elements,
                  [&] { cuda::norm_recompute(op.normed, op.residual, op.mean, op.rstd, op.weight, op.norm_bias); });
    AddNormBackward back;
    back.dropout = dropout;
    back.d_normed = op.branch, back.d_sum = op.sum, back.residual = op.residual, back.mean = op.mean;
    back.rstd = op.rstd, back.weight = op.weight, back.d_residual = op.normed;
    if (p > 0) back.d_branch = random({N, s.C});
    back.d_weight.gradient = random({s.C}, at::kFloat);
    if (!s.rms) back.d_norm_bias.gradient = random({s.C}, at::kFloat), back.d_bias.gradient = random({s.C}, at::kFloat);
    time_kernel(name + ": norm backward", (p > 0 ? 10 : 8) * elements, [&] { cuda::add_norm_backward(back); });
  }
}

void time_gelu(const char* name, int64_t N, int64_t F) {
  const double elements = static_cast<double>(N * F);
  const at::Tensor x = random({N, F}), out = random({N, F}), bias = random({F}), d_bias = random({F}, at::kFloat);
  time_kernel(fmt::format("{}: bias and GELU", name), 6 * elements, [&] { cuda::bias_gelu_forward(out, x, bias); });
  time_kernel(fmt::format("{}: GELU again", name), 4 * elements, [&] { cuda::gelu_recompute(out, x); });
  const at::Tensor d = random({N, F});
  time_kernel(fmt::format("{}: GELU backward", name), 6 * elements, [&] {
    cuda::bias_gelu_backward(out, d, x, {d_bias, false});
  });
  time_kernel(fmt::format("{}: GELU backward, bias frozen", name), 6 * elements,
              [&] { cuda::bias_gelu_backward(out, d, x, {}); });
}

void time_bias(const char* name, int64_t N, int64_t C) {
  const at::Tensor d = random({N, C}), d_bias = random({C}, at::kFloat);
  time_kernel(fmt::format("{}: bias gradient", name), 2.0 * static_cast<double>(N * C), [&] {
    cuda::bias_backward(d, {d_bias, false});
  });
}

void time_swiglu(const char* name, int64_t N, int64_t F) {
  const double elements = static_cast<double>(N * F);
  const at::Tensor gate_up = random({N, 2 * F}), out = random({N, F}), d = random({N, 2 * F});
  time_kernel(fmt::format("{}: SwiGLU", name), 6 * elements, [&] { cuda::swiglu_forward(out, gate_up); });
  time_kernel(fmt::format("{}: SwiGLU backward", name), 10 * elements, [&] { cuda::swiglu_backward(d, out, gate_up); });
}

void time_rope(const char* name, int64_t samples, int64_t length, const Heads& heads) {
  const RopeTable table = make_rope_table({.head_width = heads.head_width, .positions = length});
  const RopeTable device{to_device(table.cos), to_device(table.sin)};
  const at::Tensor qkv = random({samples, length, (heads.heads + 2 * heads.kv_heads) * heads.head_width});
  const at::Tensor positions = at::arange(length, on(at::kInt)).expand({samples, length}).contiguous();
  const auto elements = static_cast<double>(samples * length * (heads.heads + heads.kv_heads) * heads.head_width);
  time_kernel(fmt::format("{}: rotary positions", name), 4 * elements,
              [&] { cuda::rope_forward(qkv, positions, heads, device); });
}

void time_embedding(const char* name, int64_t samples, int64_t length, int64_t V, int64_t C, bool learned) {
  const int64_t N = samples * length;
  const auto elements = static_cast<double>(N * C), table = static_cast<double>(V * C);
  const at::Tensor token = tokens({samples, length}, V);
  const at::Tensor position = at::arange(length, on(at::kInt)).expand({samples, length}).contiguous();
  const at::Tensor token_table = random({V, C}), out = random({N, C});
  const at::Tensor position_table = learned ? random({length, C}) : at::Tensor();
  time_kernel(fmt::format("{}: embedding", name), 4 * elements,
              [&] { cuda::embedding_forward(out, token, position, token_table, position_table); });
  const at::Tensor d_tokens = random({V, C}, at::kFloat);
  const at::Tensor d_positions = learned ? random({length, C}, at::kFloat) : at::Tensor();
  time_kernel(fmt::format("{}: embedding backward, written", name), 2 * elements + 4 * table, [&] {
    cuda::embedding_backward({d_tokens, false}, {}, out, token, position);
  });
  time_kernel(fmt::format("{}: embedding backward, added{}", name, learned ? ", positions" : ""),
              (learned ? 12 : 10) * elements, [&] {
                cuda::embedding_backward({d_tokens, true}, {d_positions, true}, out, token, position);
              });
  const at::Tensor same = at::zeros({samples, length}, on(at::kInt));
  time_kernel(fmt::format("{}: embedding backward, one token", name), 2 * elements, [&] {
    cuda::embedding_backward({d_tokens, true}, {}, out, same, position);
  });
}

void time_cross_entropy(int64_t rows, int64_t V) {
  const at::Tensor logits = random({rows, V}), labels = tokens({rows}, V), loss = at::zeros({1}, on(at::kDouble));
  const DeviceScalars now({.loss_weight = 1e-4F});
  const auto elements = static_cast<double>(rows * V);
  time_kernel(fmt::format("cross-entropy {} x {}", rows, V), 4 * elements,
              [&] { cuda::cross_entropy(logits, labels, loss, now.get(), true); });
  time_kernel(fmt::format("cross-entropy {} x {}, loss alone", rows, V), 2 * elements,
              [&] { cuda::cross_entropy(logits, labels, loss, now.get(), false); });
  const at::Tensor statistics = at::zeros({2, rows, 3}, on(at::kFloat));
  time_kernel(fmt::format("cross-entropy {} x {}, statistics of a part", rows, V), 2 * elements,
              [&] { cuda::softmax_statistics(statistics.select(0, 0), logits, labels, 0, 2 * V); });
  time_kernel(fmt::format("cross-entropy {} x {}, of a part", rows, V), 4 * elements,
              [&] { cuda::cross_entropy_split(logits, labels, statistics, 0, 2 * V, loss, now.get(), true); });
}

void time_flat(int64_t n) {
  const auto elements = static_cast<double>(n);
  const at::Tensor wide = random({n}, at::kFloat), half = random({n}), other = random({n}, at::kFloat);
  const at::Tensor sum = at::zeros({1}, on(at::kDouble));
  time_kernel("copy of fp32 by the driver", 8 * elements, [&] { other.copy_(wide); });
  time_kernel("cast fp32 to bf16", 6 * elements, [&] { cuda::cast(half, wide); });
  time_kernel("cast bf16 to fp32", 6 * elements, [&] { cuda::cast(other, half); });
  time_kernel("fp32 += bf16", 10 * elements, [&] { cuda::add_into(other, half, true); });
  time_kernel("fp32 += fp32", 12 * elements, [&] { cuda::add_into(other, wide, true); });
  time_kernel("sum of squares", 4 * elements, [&] { cuda::sum_of_squares(wide, sum); });
}

void time_optimizers(int64_t n) {
  const auto elements = static_cast<double>(n);
  const DeviceScalars now({.seed = 1, .step = 2, .update = 3, .learning_rate = 1e-4F});
  const at::Tensor gradient = random({n}, at::kFloat), weight = random({n});
  const at::Tensor norms = at::zeros({2}, on(at::kDouble));
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor master = random({n}, dtype), m = random({n}, dtype), v = random({n}, dtype).square_();
    const bool rounded = dtype == at::kBFloat16;
    const at::Tensor besides = rounded ? at::Tensor() : weight;
    const double size = rounded ? 2 : 4, extra = rounded ? 0 : 2;
    const std::string name = rounded ? "bf16 states" : "fp32 states, bf16 weights";
    time_kernel("AdamW, " + name, (6 * size + 4 + extra) * elements,
                [&] { cuda::adamw_step(master, m, v, gradient, besides, {}, now.get()); });
    time_kernel("SGD with momentum, " + name, (4 * size + 4 + extra) * elements,
                [&] { cuda::sgd_step(master, m, gradient, besides, {}, now.get()); });
    time_kernel("LAMB, measured, " + name, (3 * size + 4) * elements,
                [&] { cuda::lamb_measure(master, m, v, gradient, {}, now.get(), norms); });
    time_kernel("LAMB, " + name, (6 * size + 4 + extra) * elements,
                [&] { cuda::lamb_step(master, m, v, gradient, besides, {}, norms, now.get()); });
  }
}

}  // namespace

void time_kernels() {
  time_normals();
  for (const Size& s : {Size{"A", 64, 1024, 768, false}, Size{"B", 8, 1024, 1600, false},
                        Size{"C", 8, 2048, 2048, true}, Size{"D", 4, 2048, 4096, true}})
    time_norms(s);
  time_gelu("A", 65536, 3072);
  time_gelu("B", 8192, 6400);
  time_bias("A, qkv", 65536, 2304);
  time_bias("B, qkv", 8192, 4800);
  time_swiglu("C", 16384, 5632);
  time_swiglu("D", 8192, 11008);
  time_rope("C", 8, 2048, {.heads = 32, .kv_heads = 4, .head_width = 64});
  time_rope("D", 4, 2048, {.heads = 32, .kv_heads = 32, .head_width = 128});
  time_embedding("A", 64, 1024, 50304, 768, true);
  time_embedding("C", 8, 2048, 32000, 2048, false);
  time_cross_entropy(8192, 50304);
  time_cross_entropy(8192, 50257);
  time_cross_entropy(8192, 32000);
  time_cross_entropy(4096, 128256);
  {
    const at::Tensor x = random({65536, 768}), out = random({65536, 768});
    const DeviceScalars now({.seed = 1, .step = 2});
    const Dropout dropout{.p = 0.1F, .site = 1, .now = now.get(), .samples = at::arange(64, on(at::kLong))};
    time_kernel("A: dropout", 4.0 * 65536 * 768, [&] { cuda::dropout_forward(out, x, dropout); });
    time_kernel("A: dropout added", 6.0 * 65536 * 768, [&] { cuda::dropout_add(out, x, dropout); });
  }
  time_flat(int64_t{124} << 20);
  time_optimizers(int64_t{124} << 20);
}

}  // namespace partita::internal::ops_cuda
