// A linear in fp8 over several tensor-parallel ranks: the scales and bytes of one process on every rank, whichever rank
// has the largest value, and few collectives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "partita/comm/recording.h"
#include "partita/nn/tensor_parallel.h"
#include "partita/ops/fp8.h"
#include "tests/nn/linear_case.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

using reference::same_bits;
using reference::values;
using test::LinearCase;
using test::LinearOptions;
using test::TestGrads;

enum class Scaling : uint8_t { current, first_step, delayed };

struct Setting {
  Split split = Split::rows;
  bool sequence = false;
  bool measured = false;  // the kernels that produce x and d_y measure them
  bool adapter = false;
  Scaling scaling = Scaling::current;
  bool pieces = false;  // the matmuls are made in runs of rows
};

std::string text_of(const Setting& s) {
  return fmt::format("{} split, sequence {}, measured {}, adapter {}, scaling {}, pieces {}",
                     s.split == Split::rows ? "row" : "column", s.sequence, s.measured, s.adapter,
                     static_cast<int>(s.scaling), s.pieces);
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Split split : {Split::rows, Split::columns})
    for (const bool sequence : {false, true})
      for (const bool adapter : {false, true})
        for (const bool pieces : {false, true}) {
          for (const bool measured : {false, true})
            all.push_back({split, sequence, measured, adapter, Scaling::current, pieces});
          for (const Scaling scaling : {Scaling::first_step, Scaling::delayed})
            all.push_back({split, sequence, true, adapter, scaling, pieces});
        }
  return all;
}

// Parts of unlike size on 2, 3 and 4 ranks, all of them multiples of 16. The parts of 192 rows are made in pieces; those
// of 48 are not on 2 and 4 ranks, where they are no multiples of 16.
LinearOptions options_of(const Setting& s, const TensorSplit& tensor) {
  const bool rows = s.split == Split::rows;
  return {.shape = {.samples = s.pieces ? 12 : 3, .length = 16},
          .in = rows ? 48 : 112,
          .parts = rows ? std::vector<ParameterPart>{{.name = "mlp.gate", .rows = 80, .quantum = 16},
                                                     {.name = "mlp.up", .rows = 112, .quantum = 16}}
                        : std::vector<ParameterPart>{{.name = "mlp.down", .rows = 64, .quantum = 16}},
          .bias = rows,
          .measured = s.measured,
          .split = s.split,
          .lora = s.adapter ? LoraOptions{.rank = 3, .scale = 0.5F, .parts = {"mlp.up", "mlp.down"}} : LoraOptions{},
          .dtype = DType::bf16,
          .fp8 = true,
          .before = 2,
          .tensor = tensor};
}

// Magnitudes grow along rows and columns, so that the parts of all ranks have another amax. up: along both.
at::Tensor ramp(const at::Tensor& t, bool up) {
  at::Tensor wide = t.to(at::kFloat).contiguous();
  float* const data = wide.mutable_data_ptr<float>();
  const int64_t rows = t.size(0), columns = t.size(1);
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const double place = static_cast<double>(i / columns) / static_cast<double>(rows) +
                         static_cast<double>(i % columns) / static_cast<double>(columns);
    data[i] *= std::exp2(static_cast<float>(up ? 6 * place : -6 * place));
  }
  return wide.to(t.scalar_type());
}

class RankCase : public LinearCase {
 public:
  RankCase(const Setting& s, const TensorSplit& tensor, Communicator* group, bool up)
      : LinearCase(options_of(s, tensor)), setting(s) {
    batch_.tokens = at::zeros({options.shape.samples, options.shape.length}, at::kInt);
    context.batch = &batch_;
    if (group != nullptr)
      context.tensor = &parallel_.emplace(*group, stream_, tensor, rows(), s.split == Split::rows ? options.in : out(),
                                          options.dtype, at::kCPU);
    if (s.scaling != Scaling::current) context.scales = at::zeros({3 * kScalesOfLinear, kFp8Scale});
    context.scales_known = s.scaling == Scaling::delayed;
    if (context.scales_known)
      for (int64_t which = 0; which < kScalesOfLinear; ++which) scale(which)[kFp8Expected].fill_(3);
    ParameterSpec whole = parameters[kWeight];
    whole.shape = {out(), options.in};
    weights[kWeight] = part_of(whole, ramp(reference::random(whole.shape, type(), 1, 0, 0.4), up));
    saved.kept[kFirstSlot] = s.scaling != Scaling::first_step;
    begin_scales(context, saved[kScales]);
  }

  [[nodiscard]] at::Tensor scale(int64_t which) const {
    const at::Tensor all = context.scales.defined() ? context.scales.view({-1}) : saved[kScales];
    return all.narrow(0, (options.before * kScalesOfLinear + which) * kFp8Scale, kFp8Scale);
  }
  [[nodiscard]] const at::Tensor& transposed() const { return saved[kFirstSlot]; }

  // This rank's part of a whole tensor in the stream, and of one between two linears of a layer.
  [[nodiscard]] at::Tensor stream(const at::Tensor& whole) const {
    const TensorSplit& t = options.tensor;
    return whole.narrow(0, t.first_row(rows()), t.stream_rows(rows())).contiguous();
  }
  [[nodiscard]] at::Tensor inner(const at::Tensor& whole) const {
    std::vector<at::Tensor> columns;
    for (const LocalBox& local : parameters[kWeight].local)
      columns.push_back(setting.split == Split::rows ? whole.narrow(1, local.box.row, local.box.rows)
                                                     : whole.narrow(1, local.box.column, local.box.columns));
    return columns.empty() ? whole : at::cat(columns, 1).contiguous();
  }
  [[nodiscard]] at::Tensor input(const at::Tensor& whole) const {
    return setting.split == Split::rows ? stream(whole) : inner(whole);
  }
  [[nodiscard]] at::Tensor output(const at::Tensor& whole) const {
    return setting.split == Split::rows ? inner(whole) : stream(whole);
  }

  // Forward and backward of this rank's parts of whole tensors, as a layer does it.
  void run(const at::Tensor& x, const at::Tensor& d_y) {
    const at::Tensor own_x = input(x), own_d_y = output(d_y);
    y = reference::nan(own_d_y.sizes(), type()), d_x = reference::nan(own_x.sizes(), type());
    if (const at::Tensor amax = linear->input_amax(context, saved, rows()); setting.measured && amax.defined())
      fp8_measure(amax, own_x);
    linear->forward(weights, y, own_x, context, saved);
    if (setting.scaling == Scaling::first_step) {  // not kept: made again before backward
      linear->keep_input(own_x, context, saved);
      linear->recompute(weights, own_x, context, saved);
    }
    poison_scratch();
    at::Tensor d_scale = setting.measured ? linear->gradient_scale(context, saved, rows()) : at::Tensor();
    if (d_scale.defined()) fp8_measure(linear->gradient_amax(context, saved, rows()), own_d_y);
    linear->backward(weights, d_x, own_d_y, own_x.clone(), context, saved, grads, d_scale);
  }

  Setting setting;
  TestGrads grads{parameters};
  at::Tensor y, d_x;

 private:
  Batch batch_;
  CpuStream stream_;
  std::optional<TensorParallel> parallel_;
};

TensorSplit split_of(const Communicator& group, const Setting& s) {
  return {.rank = group.rank(), .ranks = group.size(), .sequence = s.sequence, .least_piece = 1};
}

// Relative to the largest.
void expect_near(const at::Tensor& found, const at::Tensor& expected, double tolerance, const std::string& what) {
  const double largest = test::wide(expected).abs().max().item<double>();
  EXPECT_LE(test::wide(found).sub(test::wide(expected)).abs().max().item<double>(), tolerance * largest) << what;
}

TEST(Fp8LinearRanks, ScalesAndBytesAreThoseOfOneProcess) {
  const auto group = test_world().group("tensor", test_ranks());
  const double rounding = reference::tolerance(at::kBFloat16);
  for (const Setting& s : settings())
    for (const bool up : {true, false}) {  // the last rank has the largest values, or the first
      const std::string what = text_of(s);
      RankCase whole(s, {}, nullptr, up), part(s, split_of(*group, s), group.get(), up);
      ASSERT_TRUE(part.linear->is_fp8(part.rows())) << what;
      const int64_t rows = whole.rows(), in = whole.options.in, out = whole.out();
      const at::Tensor x = ramp(whole.random(in, 1, 5), up), d_y = ramp(whole.random(out, 2, 0.01), up);
      whole.run(x, d_y);
      part.run(x, d_y);
      for (int64_t which = 0; which < kScalesOfLinear; ++which)
        for (const int64_t number : {kFp8Expected, kFp8Inverse})
          EXPECT_TRUE(same_bits(part.scale(which)[number], whole.scale(which)[number]))
              << what << ", scale " << which << ": " << part.scale(which)[number].item<float>() << " instead of "
              << whole.scale(which)[number].item<float>();
      // x transposed and rounded to 8 bits.
      const at::Tensor bytes =
          s.split == Split::rows ? whole.transposed() : part.inner(whole.transposed().t()).t().contiguous();
      EXPECT_TRUE(same_bits(part.transposed().view({-1, rows}), bytes)) << what;
      // Products of the same bytes. What is a sum over ranks is rounded on each of them before.
      const bool row_split = s.split == Split::rows;
      expect_near(part.y, part.output(whole.y), row_split ? rounding : group->size() * rounding, what + ", y");
      expect_near(part.d_x, part.input(whole.d_x), row_split ? group->size() * rounding : rounding, what + ", d_x");
      reference::expect_close(
          part.grads.gradients[LinearCase::kWeight],
          values(LinearCase::part_of(part.parameters[LinearCase::kWeight], whole.grads.gradients[LinearCase::kWeight])),
          1e-5);
    }
}

// What the ranks measure for later steps is of their parts: together that of one process.
TEST(Fp8LinearRanks, TheLargestMeasureIsThatOfOneProcess) {
  const auto group = test_world().group("tensor", test_ranks());
  CpuStream stream;
  for (const Setting& s : settings()) {
    if (s.scaling == Scaling::current) continue;
    RankCase whole(s, {}, nullptr, true), part(s, split_of(*group, s), group.get(), true);
    const at::Tensor x = ramp(whole.random(whole.options.in, 1, 5), true),
                     d_y = ramp(whole.random(whole.out(), 2, 0.01), true);
    whole.run(x, d_y);
    part.run(x, d_y);
    const at::Tensor measured = part.context.scales.select(1, kFp8Measured).clone();
    group->all_reduce(measured, Reduce::max, stream).wait();
    EXPECT_TRUE(measured.equal(whole.context.scales.select(1, kFp8Measured))) << text_of(s);
  }
}

TEST(Fp8LinearRanks, ExchangeAtMostOnceInEachPass) {
  const auto all = test_world().group("tensor", test_ranks());
  if (all->size() == 1) return;
  RecordingCommunicator group(*all);
  for (const Setting& s : settings()) {
    RankCase part(s, split_of(group, s), &group, true);
    const at::Tensor x = part.random(part.options.in, 1, 5), d_y = part.random(part.out(), 2, 0.01);
    group.clear();
    part.run(x, d_y);
    int64_t exchanges = 0;
    for (const CollectiveRecord& record : group.records()) exchanges += record.dtype == at::kInt ? 1 : 0;
    const bool parts_of_gradient = s.split == Split::rows || s.sequence;
    EXPECT_EQ(exchanges, s.scaling == Scaling::delayed ? 0 : 1 + (parts_of_gradient ? 1 : 0)) << text_of(s);
  }
}

// Scales of NaN, which overflow everywhere and skip the step, on the ranks too whose own part is finite.
TEST(Fp8LinearRanks, WhatIsNotFiniteOnOneRankIsSoOnAll) {
  const auto group = test_world().group("tensor", test_ranks());
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const bool measured : {false, true}) {
      const Setting setting{.split = Split::columns, .measured = measured};
      RankCase part(setting, split_of(*group, setting), group.get(), true);
      const at::Tensor x = part.random(part.options.in, 1, 5), d_y = part.random(part.out(), 2, 0.01);
      x.narrow(1, part.options.in - 1, 1).fill_(bad);  // the last rank's
      part.run(x, d_y);
      EXPECT_TRUE(std::isnan(part.scale(0)[kFp8Inverse].item<float>()));
      EXPECT_EQ(part.scale(0)[kFp8Expected].item<float>() == bad, !std::isnan(bad));
      EXPECT_TRUE(part.y.isnan().all().item<bool>());
    }
}

}  // namespace
}  // namespace partita::internal
