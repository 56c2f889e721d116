// A Linear with all that a layer gives it: parameters, saved buffers, scratch, a batch and gradients. Everything is
// full of NaN until it is written, and the linear's indices do not begin at 0.
#pragma once
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "partita/device/scalar_type.h"
#include "partita/nn/layer.h"
#include "partita/nn/linear.h"
#include "tests/ops/dropout_reference.h"
#include "tests/ops/reference.h"

namespace partita::internal::test {

inline at::Tensor wide(const at::Tensor& t) { return t.to(at::kDouble); }

inline void fill_with_nan(const at::Tensor& t) {
  if (t.numel() > 0) std::memset(t.mutable_data_ptr(), 0xFF, t.nbytes());  // NaN in every format
}

// fp32 gradients as a store holds them: the first write overwrites NaN, later ones add. Products are plain matmuls.
class TestGrads final : public Grads {
 public:
  explicit TestGrads(const std::vector<ParameterSpec>& list) : written_(list.size(), 0) {
    for (const ParameterSpec& p : list) gradients.push_back(p.trainable ? reference::nan(p.shape) : at::Tensor());
  }
  [[nodiscard]] bool trains(int parameter) const override {
    return gradients.at(static_cast<size_t>(parameter)).defined();
  }
  Target target(int parameter) override {
    const auto p = static_cast<size_t>(parameter);
    return {gradients.at(p), std::exchange(written_.at(p), 1) != 0};
  }
  void matmul(int parameter, at::Tensor d_y, at::Tensor x, float scale) override {
    const Target to = target(parameter);
    if (!to.gradient.defined()) return;
    const at::Tensor product = at::matmul(wide(d_y).t(), wide(x)).mul(scale);
    if (to.accumulate)
      to.gradient.add_(product);
    else
      to.gradient.copy_(product);
  }

  std::vector<at::Tensor> gradients;  // [parameter]; undefined: frozen

 private:
  std::vector<char> written_;
};

struct LinearOptions {
  Shape shape;
  int64_t in = 1;
  std::vector<ParameterPart> parts;
  bool bias = false, measured = true;
  Split split = Split::rows;
  const char* adapter = nullptr;
  LoraOptions lora;
  DType dtype = DType::fp32;
  bool fp8 = false;
  Mode mode = Mode::train;
  int before = 0;  // linears of the layer before this one, which have scales, but neither adapters nor slots
  uint64_t seed = 1;
  TensorSplit tensor;  // this rank's part of the linear; `in` and `parts` are of the whole
};

inline constexpr int64_t kTestLayer = 3;

class LinearCase {
 public:
  // Places in the lists of the layer.
  enum Parameter : uint8_t { kOther, kWeight, kBias, kFirstAdapter };
  enum Slot : uint8_t { kScales, kInput, kFirstSlot };
  static constexpr int kFirstScratch = 1;

  explicit LinearCase(const LinearOptions& o) : options(o) {
    places = {.parameter = kFirstAdapter,
              .slot = kFirstSlot,
              .scratch = kFirstScratch,
              .fp8 = o.fp8,
              .scales = kScales,
              .linear = o.before,
              .tensor = o.tensor};
    linear = std::make_unique<Linear>(LinearSpec{.weight = kWeight,
                                                 .bias = o.bias ? int{kBias} : -1,
                                                 .measured = o.measured,
                                                 .in = o.in,
                                                 .split = o.split,
                                                 .parts = o.parts,
                                                 .adapter = o.adapter},
                                      kTestLayer, o.lora, places);
    parameters = {{.name = "other", .shape = {1}},
                  {.name = "weight", .shape = {out(), o.in}},
                  {.name = "bias", .shape = {out()}}};
    linear->add_parameters(parameters);
    linear->split_bias(parameters[kBias]);
    set_local_boxes(parameters, o.tensor);
    for (size_t p = 0; p < parameters.size(); ++p) {
      weights.push_back(
          part_of(parameters[p], reference::random(parameters[p].shape, type(), o.seed + 100 + p, 0, 0.4)));
      parameters[p].shape = weights.back().sizes().vec();
    }

    saved_specs = {linear_scales(o.before + 1, o.fp8), {"x", {rows(), o.in}, o.dtype, linear->input_saved(rows())}};
    linear->add_saved(o.shape, o.dtype, saved_specs);
    for (const BufferSpec& spec : saved_specs) saved.kept.push_back(spec.saved_up_to != std::nullopt);
    saved.slots = poisoned(saved_specs);
    scratch_specs = {{"other", {3}, DType::fp32}};
    add_linear_scratch(o.lora, places, o.shape,
                       {.stream = o.split == Split::columns ? out() : o.in,
                        .widest_in = o.in,
                        .widest_out = out(),
                        .largest = out() * o.in},
                       o.dtype, scratch_specs);
    scratch = poisoned(scratch_specs);

    context.mode = o.mode;
    context.now = &reference::kNow;
    context.scratch = scratch;
    context.samples = reference::sample_ids(std::span(reference::kSamples).first(static_cast<size_t>(o.shape.samples)));
  }
  LinearCase(const LinearCase&) = delete;

  [[nodiscard]] int64_t rows() const { return options.shape.rows(); }
  [[nodiscard]] int64_t out() const {
    int64_t sum = 0;
    for (const ParameterPart& part : options.parts) sum += part.rows;
    return sum;
  }
  [[nodiscard]] at::ScalarType type() const { return scalar_type(options.dtype); }
  [[nodiscard]] at::Tensor random(int64_t columns, uint64_t seed, double std = 1) const {
    return reference::random({rows(), columns}, type(), options.seed + seed, 0, std);
  }
  [[nodiscard]] at::Tensor fresh(int64_t columns) const { return reference::nan({rows(), columns}, type()); }

  // What this rank holds of a whole parameter.
  static at::Tensor part_of(const ParameterSpec& p, const at::Tensor& whole) {
    if (p.local.empty()) return whole;
    std::vector<at::Tensor> boxes;
    for (const LocalBox& local : p.local) {
      const at::Tensor columns = whole.narrow(-1, local.box.column, local.box.columns);
      boxes.push_back(whole.dim() > 1 ? columns.narrow(0, local.box.row, local.box.rows) : columns);
    }
    return at::cat(boxes).contiguous();
  }

  void poison_scratch() const {
    for (const at::Tensor& t : scratch) fill_with_nan(t);
  }

  // The parts that have adapters, in order, with their first rows of W.
  struct Adapted {
    int64_t begin, rows;
    size_t a, b;  // parameters
    int slot;
    uint32_t site;
  };
  [[nodiscard]] std::vector<Adapted> adapted() const {
    std::vector<Adapted> list;
    if (options.lora.rank == 0) return list;
    int64_t begin = 0;
    const auto parts = options.adapter == nullptr
                           ? options.parts
                           : std::vector<ParameterPart>{{.name = options.adapter, .rows = out()}};
    for (const ParameterPart& part : parts) {
      const auto& names = options.lora.parts;
      if (std::ranges::find(names, part.name) != names.end()) {
        const auto k = static_cast<int>(list.size());
        list.push_back({.begin = begin,
                        .rows = part.rows,
                        .a = kFirstAdapter + 2 * list.size(),
                        .b = kFirstAdapter + 2 * list.size() + 1,
                        .slot = kFirstSlot + (options.fp8 ? 1 : 0) + k,
                        .site = adapter_dropout_site(kTestLayer, k)});
      }
      begin += part.rows;
    }
    return list;
  }

  // Mask and scale of the dropout before an adapter, [rows, in].
  [[nodiscard]] at::Tensor multipliers(const Adapted& adapter) const {
    const float p = options.mode == Mode::train ? options.lora.dropout : 0;
    at::Tensor all = at::ones({rows(), options.in}, at::TensorOptions(at::kDouble));
    if (p == 0) return all;
    const reference::Values values =
        reference::dropout_multipliers(p, options.shape.samples, options.shape.length * options.in, adapter.site);
    std::ranges::copy(values, all.mutable_data_ptr<double>());
    return all;
  }

  LinearOptions options;
  LinearIndices places;  // the next free ones after this linear
  std::unique_ptr<Linear> linear;
  std::vector<ParameterSpec> parameters;
  std::vector<at::Tensor> weights;
  std::vector<BufferSpec> saved_specs, scratch_specs;
  Saved saved;
  std::vector<at::Tensor> scratch;
  Context context;

 private:
  static std::vector<at::Tensor> poisoned(const std::vector<BufferSpec>& specs) {
    std::vector<at::Tensor> buffers;
    for (const BufferSpec& spec : specs) {
      buffers.push_back(at::zeros(spec.shape, at::TensorOptions(scalar_type(spec.dtype))));
      fill_with_nan(buffers.back());
    }
    return buffers;
  }
};

}  // namespace partita::internal::test
