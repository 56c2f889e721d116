// Kernels that take tokens, positions, labels or samples as input.
#include <ATen/ops/abs.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "partita/ops/cross_entropy.h"
#include "partita/ops/cuda/cross_entropy.h"
#include "partita/ops/cuda/dropout_apply.h"
#include "partita/ops/cuda/embedding.h"
#include "partita/ops/cuda/rope.h"
#include "partita/ops/cuda/values.h"
#include "partita/ops/dropout.h"
#include "partita/ops/embedding.h"
#include "partita/ops/rope.h"
#include "tests/ops_cuda/kernels_check.h"

namespace partita::internal::ops_cuda {
namespace {

void check_rope(Report& report, at::ScalarType dtype) {
  struct Case {
    int64_t samples, length;
    Heads heads;
    int64_t offset = 0;
  };
  const Case cases[] = {{0, 4, {1, 1, 8}},  {1, 1, {1, 1, 2}},       {2, 7, {3, 1, 6}},    {2, 9, {4, 2, 16}, 1},
                        {2, 9, {4, 4, 64}}, {3, 50, {32, 4, 64}},    {2, 33, {5, 5, 128}}, {1, 100, {32, 8, 128}},
                        {1, 9, {9, 3, 80}}, {1, 40, {2, 2, 256}, 4}, {2, 300, {8, 1, 100}}};
  for (const Case& c : cases) {
    const RopeTable table = make_rope_table({.head_width = c.heads.head_width, .positions = 400});
    const RopeTable device_table{to_device(table.cos), to_device(table.sin)};
    const at::Tensor qkv =
        normal({c.samples, c.length, (c.heads.heads + 2 * c.heads.kv_heads) * c.heads.head_width}, dtype);
    const at::Tensor positions = integers({c.samples, c.length}, 400), device = to_device(qkv, c.offset);
    const std::string name = "rope " + text_of(dtype, qkv.sizes()) + (c.offset > 0 ? " not aligned" : "");
    rope_forward(qkv, positions, c.heads, table);
    cuda::rope_forward(device, to_device(positions), c.heads, device_table);
    expect_close(report, name, device, qkv, one_rounding(dtype));
    rope_backward(qkv, positions, c.heads, table);
    cuda::rope_backward(device, to_device(positions), c.heads, device_table);
    expect_close(report, name + " backward", device, qkv, 2 * one_rounding(dtype));
  }
}

void check_dropout(Report& report, at::ScalarType dtype) {
  struct Case {
    int64_t samples, length, C;
    float p;
    int64_t offset = 0;
  };
  const Case cases[] = {{0, 3, 8, 0.1F},  {1, 1, 1, 0.5F},    {2, 5, 7, 0.3F},     {3, 9, 33, 0},
                        {2, 9, 16, 0.1F}, {4, 40, 384, 0.1F}, {3, 11, 8, 0.2F, 1}, {2, 100, 130, 1e-6F}};
  const StepScalars now{.seed = 99, .step = int64_t{1} << 33};
  const DeviceScalars device_now(now);
  const std::vector<int64_t> ids = {(int64_t{3} << 32) + 1, 5, 0, 77};
  for (const Case& c : cases) {
    at::Tensor samples = at::zeros({c.samples}, at::TensorOptions(at::kLong));
    std::copy_n(ids.begin(), c.samples, samples.mutable_data_ptr<int64_t>());
    const Dropout cpu{.p = c.p, .site = 3, .now = &now, .samples = samples};
    const Dropout device{.p = c.p, .site = 3, .now = device_now.get(), .samples = to_device(samples)};
    const at::Tensor in = normal({c.samples * c.length, c.C}, dtype), out = nan(in.sizes(), dtype);
    const at::Tensor device_in = to_device(in, c.offset), device_out = to_device(out, c.offset);
    const std::string name =
        fmt::format("dropout {} p {}{}", text_of(dtype, in.sizes()), c.p, c.offset > 0 ? " not aligned" : "");
    dropout_forward(out, in, cpu);
    cuda::dropout_forward(device_out, device_in, device);
    expect_same_bits(report, name, device_out, out);
    dropout_add(out, in, cpu);
    cuda::dropout_add(device_out, device_in, device);
    expect_close(report, name + " add", device_out, out, one_rounding(dtype));
    for (const int64_t cut : {std::min(c.length / 2, in.size(0)), in.size(0) / 3, in.size(0)}) {
      const at::Tensor by_part = to_device(nan(in.sizes(), dtype), c.offset);
      for (const auto& [begin, count] : {std::pair{int64_t{0}, cut}, {cut, in.size(0) - cut}}) {
        Dropout part = device;
        part.first_row = begin, part.rows = in.size(0);
        cuda::dropout_forward(by_part.narrow(0, begin, count), device_in.narrow(0, begin, count), part);
      }
      dropout_forward(out, in, cpu);
      expect_same_bits(report, name + fmt::format(" cut at row {}", cut), by_part, out);
    }
    for (const auto& [begin, count] : {std::pair{int64_t{0}, c.C / 2}, {c.C / 2, c.C - c.C / 2}}) {
      Dropout part = device;
      part.first_column = begin, part.columns = c.C;
      const auto columns = [begin, count](const at::Tensor& t) { return t.narrow(1, begin, count).contiguous(); };
      const at::Tensor some = to_device(columns(nan(in.sizes(), dtype)));
      cuda::dropout_forward(some, to_device(columns(in)), part);
      expect_same_bits(report, name + fmt::format(" columns from {} on", begin), some, columns(out));
    }
    // Rows that are pieces of longer sequences, whole and cut.
    for (int rank = 0; c.length % 2 == 0 && rank < 3; ++rank) {
      Dropout of_pieces = cpu, part = device;
      of_pieces.context = part.context = {.rank = rank, .ranks = 3};
      dropout_forward(out, in, of_pieces);
      const at::Tensor by_part = to_device(nan(in.sizes(), dtype), c.offset);
      part.rows = in.size(0);
      for (const auto& [begin, count] :
           {std::pair{int64_t{0}, in.size(0) / 3}, {in.size(0) / 3, in.size(0) - in.size(0) / 3}}) {
        part.first_row = begin;
        cuda::dropout_forward(by_part.narrow(0, begin, count), device_in.narrow(0, begin, count), part);
      }
      expect_same_bits(report, name + fmt::format(" of pieces of rank {}", rank), by_part, out);
    }
    cuda::dropout_forward(device_in, device_in, device);
    dropout_forward(in, in, cpu);
    expect_same_bits(report, name + " in place", device_in, in);
  }
}

// Tokens of which one in three is the same, so that its run crosses chunks.
at::Tensor tokens_with_favourite(int64_t samples, int64_t length, int64_t V, int64_t favourite) {
  at::Tensor tokens = integers({samples, length}, V);
  auto* token = tokens.mutable_data_ptr<int32_t>();
  for (int64_t i = 0; i < tokens.numel(); i += 3) token[i] = static_cast<int32_t>(favourite);
  return tokens;
}

// What embedding_backward makes of `gradient`, in fp64, and the sums of the magnitudes that are added.
std::pair<at::Tensor, at::Tensor> scattered(const at::Tensor& gradient, bool accumulate, const at::Tensor& d_out,
                                            const at::Tensor& rows) {
  const at::Tensor begin = accumulate ? gradient.to(at::kDouble) : at::zeros(gradient.sizes(), at::kDouble);
  const at::Tensor index = rows.reshape({-1}).to(at::kLong), d = d_out.to(at::kDouble);
  return {at::index_add(begin, 0, index, d), at::index_add(begin.abs(), 0, index, d.abs())};
}

// Of fp32 sums of up to n terms: 32 in a row, then these sums.
double roundings(int64_t n) { return std::ldexp(32 + static_cast<double>(n) / 32, -24); }

void check_embedding(Report& report, at::ScalarType dtype) {
  struct Case {
    int64_t samples, length, V, P, C;  // P 0: no positions
    int64_t offset = 0;
  };
  const Case cases[] = {{0, 4, 5, 5, 8},         {1, 1, 1, 1, 1},         {2, 7, 11, 9, 3},    {2, 16, 5, 0, 16},
                        {3, 100, 50, 120, 33},   {4, 128, 1000, 128, 64}, {2, 500, 3, 0, 100}, {3, 31, 40, 31, 24, 1},
                        {2, 1024, 5000, 0, 768}, {1, 300, 7, 300, 2200},  {1, 4000, 1, 0, 8}};
  for (const Case& c : cases) {
    const int64_t N = c.samples * c.length;
    const std::string name = fmt::format("embedding {} V {}{}{}", text_of(dtype, {c.samples, c.length, c.C}), c.V,
                                         c.P > 0 ? " positions" : "", c.offset > 0 ? " not aligned" : "");
    const at::Tensor tokens = tokens_with_favourite(c.samples, c.length, c.V, c.V / 2);
    const at::Tensor positions = c.P > 0 ? integers({c.samples, c.length}, c.P) : at::Tensor();
    const at::Tensor token_table = normal({c.V, c.C}, dtype);
    const at::Tensor position_table = c.P > 0 ? normal({c.P, c.C}, dtype) : at::Tensor();
    const at::Tensor out = nan({N, c.C}, dtype), device_out = to_device(out, c.offset);
    embedding_forward(out, tokens, positions, token_table, position_table);
    cuda::embedding_forward(device_out, to_device(tokens), to_device(positions), to_device(token_table, c.offset),
                            to_device(position_table, c.offset));
    expect_same_bits(report, name, device_out, out);

    const at::Tensor d_out = normal({N, c.C}, dtype);
    for (const bool accumulate : {false, true}) {
      const auto table = [&](int64_t rows) { return accumulate ? normal({rows, c.C}, at::kFloat) : nan({rows, c.C}); };
      const at::Tensor d_tokens = table(c.V), d_positions = c.P > 0 ? table(c.P) : at::Tensor();
      const at::Tensor device_tokens = to_device(d_tokens), device_positions = to_device(d_positions);
      const at::Tensor second = to_device(d_tokens);
      const auto [tokens_sum, tokens_size] = scattered(d_tokens, accumulate, d_out, tokens);
      cuda::embedding_backward({device_tokens, accumulate}, {device_positions, accumulate}, to_device(d_out, c.offset),
                               to_device(tokens), to_device(positions));
      expect_sum(report, name + " d_tokens", device_tokens, tokens_sum, tokens_size, roundings(N));
      if (c.P > 0) {
        const auto [positions_sum, positions_size] = scattered(d_positions, accumulate, d_out, positions);
        expect_sum(report, name + " d_positions", device_positions, positions_sum, positions_size, roundings(N));
      }
      cuda::embedding_backward({second, accumulate}, {}, to_device(d_out, c.offset), to_device(tokens),
                               to_device(positions));
      expect_same_bits(report, name + " d_tokens again", second, device_tokens);
    }
  }
}

// A table divided among three ranks, of which the second holds no row: what the parts give, and what they add up to.
void check_divided_embedding(Report& report, at::ScalarType dtype) {
  struct Case {
    int64_t samples, length, V, P, C;
    int64_t offset = 0;
  };
  for (const Case& c :
       {Case{2, 7, 11, 9, 3}, {4, 128, 1000, 128, 64}, {1, 700, 3, 700, 24, 1}, {2, 500, 40, 500, 2200}}) {
    const int64_t N = c.samples * c.length;
    const std::string name = fmt::format("embedding {} V {} divided{}", text_of(dtype, {c.samples, c.length, c.C}), c.V,
                                         c.offset > 0 ? " not aligned" : "");
    const at::Tensor tokens = tokens_with_favourite(c.samples, c.length, c.V, c.V / 2);
    const at::Tensor positions = integers({c.samples, c.length}, c.P);
    const at::Tensor token_table = normal({c.V, c.C}, dtype), position_table = normal({c.P, c.C}, dtype);
    const at::Tensor d_out = to_device(normal({N, c.C}, dtype), c.offset);
    for (const bool accumulate : {false, true}) {
      const auto table = [&](int64_t rows) {
        return to_device(accumulate ? normal({rows, c.C}, at::kFloat) : nan({rows, c.C}));
      };
      const at::Tensor d_tokens = table(c.V), d_positions = table(c.P);
      const at::Tensor d_tokens_parts = d_tokens.clone(), d_positions_parts = d_positions.clone();
      cuda::embedding_backward({d_tokens, accumulate}, {d_positions, accumulate}, d_out, to_device(tokens),
                               to_device(positions));
      const int64_t token_cuts[] = {0, c.V / 3, c.V / 3, c.V}, position_cuts[] = {0, c.P / 2, c.P / 2, c.P};
      for (int r = 0; r < 3; ++r) {
        const TableRows token_rows{token_cuts[r], c.V}, position_rows{position_cuts[r], c.P};
        const int64_t V = token_cuts[r + 1] - token_cuts[r], P = position_cuts[r + 1] - position_cuts[r];
        cuda::embedding_backward({d_tokens_parts.narrow(0, token_rows.first, V), accumulate},
                                 {d_positions_parts.narrow(0, position_rows.first, P), accumulate}, d_out,
                                 to_device(tokens), to_device(positions), token_rows, position_rows);
        if (accumulate) continue;
        const at::Tensor by_token = token_table.narrow(0, token_rows.first, V),
                         by_position = position_table.narrow(0, position_rows.first, P);
        const at::Tensor out = nan({N, c.C}, dtype), device_out = to_device(out, c.offset);
        embedding_forward(out, tokens, positions, by_token, by_position, token_rows, position_rows);
        cuda::embedding_forward(device_out, to_device(tokens), to_device(positions), to_device(by_token, c.offset),
                                to_device(by_position, c.offset), token_rows, position_rows);
        expect_same_bits(report, name + fmt::format(" part {}", r), device_out, out);
      }
      expect_same_bits(report, name + " d_tokens", d_tokens_parts, d_tokens);
      expect_same_bits(report, name + " d_positions", d_positions_parts, d_positions);
    }
  }
}

// Columns divided among ranks, against the CPU's and against whole logits.
void check_split_cross_entropy(Report& report, at::ScalarType dtype) {
  struct Case {
    int64_t n, V, offset = 0;
    std::vector<int64_t> cuts;  // first columns of the parts behind the first
  };
  const std::vector<Case> cases = {{1, 1, 0, {}},           {5, 7, 0, {1, 3, 4}},
                                   {9, 1000, 0, {500}},     {6, 133, 1, {40, 111}},
                                   {5, 32000, 0, {8000}},   {6, 50257, 0, {1, 25129, 50256}},
                                   {3, 128256, 0, {64128}}, {2000, 64, 0, {16, 32, 48}}};
  const StepScalars now{.loss_weight = 0.37F};
  const DeviceScalars device_now(now);
  for (const Case& c : cases) {
    const std::string name = fmt::format("split cross-entropy {} in {}{}", text_of(dtype, {c.n, c.V}),
                                         c.cuts.size() + 1, c.offset > 0 ? " not aligned" : "");
    const at::Tensor logits = normal({c.n, c.V}, dtype, 0, 3), labels = integers({c.n}, c.V);
    if (c.n > 2) labels.mutable_data_ptr<int32_t>()[1] = kIgnoredLabel;
    const int64_t sure = c.n - 1;
    logits.view({-1}).narrow(0, sure * c.V + labels.const_data_ptr<int32_t>()[sure], 1).fill_(40);
    std::vector<int64_t> bounds = {0};
    bounds.insert(bounds.end(), c.cuts.begin(), c.cuts.end());
    bounds.push_back(c.V);
    const auto parts = static_cast<int64_t>(bounds.size()) - 1;
    const auto columns = [&](int64_t p) {
      const int64_t first = bounds[static_cast<size_t>(p)], last = bounds[static_cast<size_t>(p) + 1];
      return logits.narrow(1, first, last - first).clone(at::MemoryFormat::Contiguous);
    };
    const at::Tensor statistics = nan({parts, c.n, 3}), device_statistics = to_device(statistics);
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t first = bounds[static_cast<size_t>(p)];
      softmax_statistics(statistics.select(0, p), columns(p), labels, first, c.V);
      cuda::softmax_statistics(device_statistics.select(0, p), to_device(columns(p), c.offset), to_device(labels),
                               first, c.V);
    }
    for (int64_t i = 0; i < 3; ++i)
      expect_close(report, name + fmt::format(" statistic {}", i), device_statistics.select(2, i),
                   statistics.select(2, i), i == 1 ? 2e-6 : 0);
    const at::Tensor zero = at::full({1}, 0.5, at::TensorOptions(at::kDouble)), whole_loss = zero.clone();
    cross_entropy(logits.clone(), labels, whole_loss, &now, false);
    at::Tensor first_loss;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t first = bounds[static_cast<size_t>(p)];
      const at::Tensor expected = columns(p), device = to_device(expected, c.offset), alone = device.clone();
      const at::Tensor loss = zero.clone(), device_loss = to_device(zero), loss_alone = to_device(zero);
      cross_entropy_split(expected, labels, statistics, first, c.V, loss, &now, true);
      cuda::cross_entropy_split(device, to_device(labels), device_statistics, first, c.V, device_loss, device_now.get(),
                                true);
      const std::string part = name + fmt::format(" part {}", p);
      expect_close(report, part + " loss", device_loss, whole_loss, 2e-6);
      expect_close(report, part + " gradient", device, expected, 2 * one_rounding(dtype));
      cuda::cross_entropy_split(alone, to_device(labels), device_statistics, first, c.V, loss_alone, nullptr, false);
      expect_same_bits(report, part + " loss alone", loss_alone, device_loss);
      expect_same_bits(report, part + " logits in evaluation", alone, columns(p));
      if (p == 0) first_loss = device_loss;
      expect_same_bits(report, part + " loss as of the first part", device_loss, first_loss);
    }
  }
}

void check_cross_entropy(Report& report, at::ScalarType dtype) {
  struct Case {
    int64_t n, V, offset = 0;
  };
  const Case cases[] = {{1, 1},     {3, 2},     {5, 7},     {4, 8},     {9, 1000},   {7, 1001},      {6, 33, 1},
                        {5, 32000}, {6, 50257}, {4, 50304}, {3, 57353}, {3, 128256}, {3, 128251, 3}, {2000, 64}};
  const StepScalars now{.loss_weight = 0.37F};
  const DeviceScalars device_now(now);
  for (const Case& c : cases) {
    const std::string name = "cross-entropy " + text_of(dtype, {c.n, c.V}) + (c.offset > 0 ? " not aligned" : "");
    const at::Tensor logits = normal({c.n, c.V}, dtype, 0, 3), labels = integers({c.n}, c.V);
    if (c.n > 2) labels.mutable_data_ptr<int32_t>()[1] = kIgnoredLabel;
    // A row that is almost certain: its probability is 1 but for what fp32 does not show.
    const int64_t sure = c.n - 1;
    logits.view({-1}).narrow(0, sure * c.V + labels.const_data_ptr<int32_t>()[sure], 1).fill_(40);
    const at::Tensor device = to_device(logits, c.offset), second = to_device(logits, c.offset);
    const at::Tensor evaluated = to_device(logits, c.offset);
    const at::Tensor loss = to_device(at::full({1}, 0.5, at::TensorOptions(at::kDouble))), loss_again = loss.clone(),
                     loss_alone = loss.clone();
    const at::Tensor expected = loss.cpu();
    cross_entropy(logits, labels, expected, &now, true);
    cuda::cross_entropy(device, to_device(labels), loss, device_now.get(), true);
    expect_close(report, name + " loss", loss, expected, 2e-6);
    expect_close(report, name + " gradient", device, logits, 2 * one_rounding(dtype));
    cuda::cross_entropy(second, to_device(labels), loss_again, device_now.get(), true);
    expect_same_bits(report, name + " gradient again", second, device);
    expect_same_bits(report, name + " loss again", loss_again, loss);
    const at::Tensor before = evaluated.cpu();
    cuda::cross_entropy(evaluated, to_device(labels), loss_alone, nullptr, false);
    expect_same_bits(report, name + " loss alone", loss_alone, loss);
    expect_same_bits(report, name + " logits in evaluation", evaluated, before);
  }
}

void check_bad_values(Report& report) {
  cuda::check_values();
  const at::Tensor table = to_device(normal({5, 8}, at::kFloat)), out = to_device(nan({6, 8}));
  at::Tensor tokens = at::zeros({2, 3}, at::TensorOptions(at::kInt));
  tokens.view({-1}).narrow(0, 4, 1).fill_(5);
  cuda::embedding_forward(out, to_device(tokens), {}, table, {});
  expect_error(report, "a token outside the table", "token 5 in sample 1 at place 1 is outside 0..4",
               [] { cuda::check_values(); });
  expect_error(report, "which is told once", "no error", [] { cuda::check_values(); });
  tokens.view({-1}).narrow(0, 4, 1).fill_(-1);
  cuda::embedding_forward(out, to_device(at::zeros_like(tokens)), to_device(tokens), table, table);
  expect_error(report, "a position outside the table", "position -1 in sample 1 at place 1 is outside 0..4",
               [] { cuda::check_values(); });
  const RopeTable rope = make_rope_table({.head_width = 8, .positions = 4});
  cuda::rope_forward(to_device(normal({2, 3, 24}, at::kFloat)), to_device(at::full_like(tokens, 4)), {1, 1, 8},
                     {to_device(rope.cos), to_device(rope.sin)});
  expect_error(report, "a rotary position outside the table", "is outside 0..3", [] { cuda::check_values(); });
  const at::Tensor logits = to_device(normal({3, 5}, at::kFloat)),
                   loss = to_device(at::zeros({1}, at::TensorOptions(at::kDouble)));
  at::Tensor labels = at::zeros({3}, at::TensorOptions(at::kInt));
  labels.narrow(0, 2, 1).fill_(7);
  cuda::cross_entropy(logits, to_device(labels), loss, nullptr, false);
  expect_error(report, "a label outside the vocabulary", "label 7 of row 2 is outside 0..4",
               [] { cuda::check_values(); });
  const at::Tensor statistics = to_device(at::zeros({2, 3, 3}, at::TensorOptions(at::kFloat)));
  labels.narrow(0, 2, 1).fill_(10);
  cuda::softmax_statistics(statistics.select(0, 0), logits, to_device(labels), 5, 10);
  cuda::cross_entropy_split(logits, to_device(labels), statistics, 5, 10, loss, nullptr, false);
  expect_error(report, "a label outside a divided vocabulary", "label 10 of row 2 is outside 0..9",
               [] { cuda::check_values(); });
  tokens.view({-1}).narrow(0, 4, 1).fill_(9);
  cuda::embedding_forward(out, to_device(tokens), {}, table, {}, {2, 9});
  expect_error(report, "a token outside a divided table", "token 9 in sample 1 at place 1 is outside 0..8",
               [] { cuda::check_values(); });
  tokens.view({-1}).narrow(0, 4, 1).fill_(8);
  cuda::embedding_forward(out, to_device(tokens), {}, table, {}, {2, 9});
  expect_error(report, "a token in another part of the table", "no error", [] { cuda::check_values(); });
}

}  // namespace

void check_rows(Report& report) {
  for (const at::ScalarType dtype : kDTypes) {
    check_rope(report, dtype);
    check_dropout(report, dtype);
    check_embedding(report, dtype);
    check_divided_embedding(report, dtype);
    check_cross_entropy(report, dtype);
    check_split_cross_entropy(report, dtype);
  }
  expect_error(report, "values in order", "no error", [] { cuda::check_values(); });
  check_bad_values(report);
}

}  // namespace partita::internal::ops_cuda
