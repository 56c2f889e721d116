#include "partita/nn/gpt2_layer.h"

#include <fmt/format.h>

#include <cmath>

#include "partita/ops/activation.h"
#include "partita/ops/matmul.h"

namespace partita {
namespace {

// Dropout sites within a layer.
enum Place : uint8_t { kEntry, kAttention, kResidual, kPlaces };

std::string name_of_parameter(int64_t layer, std::string_view suffix) {
  return fmt::format("layers.{}.{}", layer, suffix);
}

}  // namespace

std::string down_bias_name(int64_t index) { return name_of_parameter(index, "mlp.down.bias"); }
uint32_t entry_site(int64_t index) { return static_cast<uint32_t>(index * kPlaces + kEntry); }

std::vector<ParameterSpec> Gpt2Layer::parameters() const {
  const int64_t c = options_.width, f = options_.ffn_width;
  const Init matrix{.mean = 0, .std = options_.init_std}, one{.mean = 1, .std = 0}, zero{.mean = 0, .std = 0};
  // Two projections a layer add to the residual stream: their sum keeps its scale over the depth.
  const Init residual{.mean = 0, .std = options_.init_std / std::sqrt(2.0 * static_cast<double>(options_.layers))};
  const auto spec = [&](std::string_view suffix, std::vector<int64_t> shape, Init init) {
    const bool decay = shape.size() > 1;
    return ParameterSpec{
        .name = name_of_parameter(options_.index, suffix), .shape = std::move(shape), .init = init, .decay = decay};
  };
  std::vector<ParameterSpec> list = {spec("attention.norm.weight", {c}, one),
                                     spec("attention.norm.bias", {c}, zero),
                                     spec("attention.qkv.weight", {3 * c, c}, matrix),
                                     spec("attention.qkv.bias", {3 * c}, zero),
                                     spec("attention.output.weight", {c, c}, residual),
                                     spec("attention.output.bias", {c}, zero),
                                     spec("mlp.norm.weight", {c}, one),
                                     spec("mlp.norm.bias", {c}, zero),
                                     spec("mlp.up.weight", {f, c}, matrix),
                                     spec("mlp.up.bias", {f}, zero),
                                     spec("mlp.down.weight", {c, f}, residual)};
  if (options_.index > 0) list.push_back({.name = down_bias_name(options_.index - 1), .shape = {c}, .init = zero});
  return list;
}

std::vector<BufferSpec> Gpt2Layer::saved(const Shape& s) const {
  const int64_t n = s.rows(), c = options_.width;
  const DType t = options_.dtype;
  return {{"r1", {n, c}, t, Keep::entry},
          {"mean1", {n}, DType::fp32, Keep::entry},
          {"rstd1", {n}, DType::fp32, Keep::entry},
          {"h1", {n, c}, t, Keep::all},
          {"qkv", {s.samples, s.length, 3 * c}, t, Keep::selective},
          {"attended", {s.samples, s.length, c}, t, Keep::selective},
          {"log_sum", {s.samples, options_.heads, s.length}, DType::fp32, Keep::selective},
          {"r2", {n, c}, t, Keep::selective},
          {"mean2", {n}, DType::fp32, Keep::selective},
          {"rstd2", {n}, DType::fp32, Keep::selective},
          {"h2", {n, c}, t, Keep::all},
          {"up", {n, options_.ffn_width}, t, Keep::selective},
          {"activated", {n, options_.ffn_width}, t, Keep::all}};
}

std::vector<BufferSpec> Gpt2Layer::scratch(const Shape& s) const {
  const int64_t n = s.rows(), c = options_.width;
  return {{"branch", {n, c}, options_.dtype},
          {"wide", {n, options_.ffn_width}, options_.dtype},
          {"d_qkv", {s.samples, s.length, 3 * c}, options_.dtype}};
}

Dropout Gpt2Layer::dropout(float p, uint32_t place, const Context& context) const {
  if (context.mode != Mode::train) return {};
  return {.p = p, .site = entry_site(options_.index) + place, .now = context.now, .samples = context.batch->samples};
}

AddNorm Gpt2Layer::add_norm2(Weights w, Context& context, Saved& saved, at::Tensor output) const {
  return {.sum = saved[kR1],
          .branch = std::move(output),
          .bias = w[kOutputBias],
          .dropout = dropout(options_.residual_dropout, kResidual, context),
          .weight = w[kNorm2],
          .norm_bias = w[kNorm2Bias],
          .epsilon = options_.norm_epsilon,
          .residual = saved[kR2],
          .normed = saved[kH2],
          .mean = saved[kMean2],
          .rstd = saved[kRstd2]};
}

Residual Gpt2Layer::forward(Weights w, Residual x, Context& context, Saved& saved) const {
  add_norm_forward({.sum = x.sum,
                    .branch = x.branch,
                    .bias = options_.index > 0 ? w[kEntryBias] : at::Tensor(),
                    .dropout = dropout(options_.entry_dropout, kEntry, context),
                    .weight = w[kNorm1],
                    .norm_bias = w[kNorm1Bias],
                    .epsilon = options_.norm_epsilon,
                    .residual = saved[kR1],
                    .normed = saved[kH1],
                    .mean = saved[kMean1],
                    .rstd = saved[kRstd1]});
  const int64_t n = saved[kR1].size(0);
  linear_forward(saved[kQkvOut].view({n, -1}), saved[kH1], w[kQkv], w[kQkvBias]);
  attention_forward(saved[kAttended], saved[kLogSum], saved[kQkvOut], heads(),
                    dropout(options_.attention_dropout, kAttention, context));
  const at::Tensor& output = context.scratch[kBranch];
  linear_forward(output, saved[kAttended].view({n, -1}), w[kOutput]);
  add_norm_forward(add_norm2(w, context, saved, output));
  linear_forward(saved[kUpOut], saved[kH2], w[kUp]);
  bias_gelu_forward(saved[kActivated], saved[kUpOut], w[kUpBias]);
  linear_forward(context.handed.branch, saved[kActivated], w[kDown]);
  return {.sum = saved[kR2], .branch = context.handed.branch};
}

void Gpt2Layer::recompute(Weights w, Context& context, Saved& saved) const {
  const int64_t n = saved[kR1].size(0);
  if (!saved.kept[kH1]) norm_recompute(saved[kH1], saved[kR1], saved[kMean1], saved[kRstd1], w[kNorm1], w[kNorm1Bias]);
  if (saved.kept[kQkvOut]) {
    if (!saved.kept[kH2])
      norm_recompute(saved[kH2], saved[kR2], saved[kMean2], saved[kRstd2], w[kNorm2], w[kNorm2Bias]);
    if (!saved.kept[kActivated]) gelu_recompute(saved[kActivated], saved[kUpOut]);
    return;
  }
  // From the entry: all but the down projection, whose output no gradient needs.
  linear_forward(saved[kQkvOut].view({n, -1}), saved[kH1], w[kQkv], w[kQkvBias]);
  attention_forward(saved[kAttended], saved[kLogSum], saved[kQkvOut], heads(),
                    dropout(options_.attention_dropout, kAttention, context));
  const at::Tensor& output = context.scratch[kBranch];
  linear_forward(output, saved[kAttended].view({n, -1}), w[kOutput]);
  add_norm_forward(add_norm2(w, context, saved, output));
  linear_forward(saved[kUpOut], saved[kH2], w[kUp]);
  bias_gelu_forward(saved[kActivated], saved[kUpOut], w[kUpBias]);
}

ResidualGrad Gpt2Layer::backward(Weights w, ResidualGrad d, Context& context, Saved& saved, Grads& grads) const {
  const int64_t n = saved[kR1].size(0);
  const at::Tensor &d_h = context.scratch[kBranch], &wide = context.scratch[kWide], &d_qkv = context.scratch[kDQkv];
  const Handed& out = context.handed;

  grads.matmul(kDown, d.branch, saved[kActivated]);
  linear_backward_input(wide, d.branch, w[kDown]);
  bias_gelu_backward(wide, wide, saved[kUpOut], grads.target(kUpBias));
  grads.matmul(kUp, wide, saved[kH2]);
  linear_backward_input(d_h, wide, w[kUp]);

  const Dropout residual = dropout(options_.residual_dropout, kResidual, context);
  add_norm_backward({.d_normed = d_h,
                     .d_sum = d.sum,
                     .residual = saved[kR2],
                     .mean = saved[kMean2],
                     .rstd = saved[kRstd2],
                     .weight = w[kNorm2],
                     .dropout = residual,
                     .d_residual = out.d_sum,
                     .d_branch = out.d_branch,
                     .d_weight = grads.target(kNorm2),
                     .d_norm_bias = grads.target(kNorm2Bias),
                     .d_bias = grads.target(kOutputBias)});
  const at::Tensor& d_output = residual.p > 0 ? out.d_branch : out.d_sum;
  grads.matmul(kOutput, d_output, saved[kAttended].view({n, -1}));
  linear_backward_input(d_h, d_output, w[kOutput]);
  attention_backward(d_qkv, d_h.view(saved[kAttended].sizes()), saved[kAttended], saved[kLogSum], saved[kQkvOut],
                     heads(), dropout(options_.attention_dropout, kAttention, context));
  const at::Tensor d_qkv_rows = d_qkv.view({n, -1});
  bias_backward(d_qkv_rows, grads.target(kQkvBias));
  grads.matmul(kQkv, d_qkv_rows, saved[kH1]);
  linear_backward_input(d_h, d_qkv_rows, w[kQkv]);

  const Dropout entry = dropout(options_.entry_dropout, kEntry, context);
  add_norm_backward({.d_normed = d_h,
                     .d_sum = out.d_sum,
                     .residual = saved[kR1],
                     .mean = saved[kMean1],
                     .rstd = saved[kRstd1],
                     .weight = w[kNorm1],
                     .dropout = entry,
                     .d_residual = out.d_sum,
                     .d_branch = out.d_branch,
                     .d_weight = grads.target(kNorm1),
                     .d_norm_bias = grads.target(kNorm1Bias),
                     .d_bias = options_.index > 0 ? grads.target(kEntryBias) : Target{}});
  return {.sum = out.d_sum, .branch = entry.p > 0 ? out.d_branch : out.d_sum};
}

}  // namespace partita
