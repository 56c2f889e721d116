#include "partita/nn/llama_layer.h"

#include <algorithm>
#include <cmath>

#include "partita/ops/activation.h"
#include "partita/ops/norm.h"

namespace partita {

LlamaLayer::LlamaLayer(LlamaLayerOptions options)
    : options_(std::move(options)),
      places_{.parameter = kParameters, .slot = kSlots, .scratch = kTemporaries},
      qkv_({.weight = kQkv,
            .in = options_.width,
            .parts = {{"attention.q", 0, query_width()},
                      {"attention.k", query_width(), kv_width()},
                      {"attention.v", query_width() + kv_width(), kv_width()}}},
           options_.index, options_.lora, places_),
      output_({.weight = kOutput, .in = query_width(), .parts = {{"attention.output", 0, options_.width}}},
              options_.index, options_.lora, places_),
      gate_up_({.weight = kGateUp,
                .in = options_.width,
                .parts = {{"mlp.gate", 0, options_.ffn_width}, {"mlp.up", options_.ffn_width, options_.ffn_width}}},
               options_.index, options_.lora, places_),
      down_({.weight = kDown, .in = options_.ffn_width, .parts = {{"mlp.down", 0, options_.width}}}, options_.index,
            options_.lora, places_) {}

std::vector<ParameterSpec> LlamaLayer::parameters() const {
  const int64_t c = options_.width, f = options_.ffn_width;
  const Init matrix{.mean = 0, .std = options_.init_std}, one{.mean = 1, .std = 0};
  // Two projections a layer add to the residual stream: their sum keeps its scale over the depth.
  const Init residual{.mean = 0, .std = options_.init_std / std::sqrt(2.0 * static_cast<double>(options_.layers))};
  const auto spec = [&](std::string_view suffix, std::vector<int64_t> shape, Init init) {
    const bool decay = shape.size() > 1;
    return ParameterSpec{
        .name = layer_parameter(options_.index, suffix), .shape = std::move(shape), .init = init, .decay = decay};
  };
  std::vector<ParameterSpec> list = {spec("attention.norm.weight", {c}, one),
                                     spec("attention.qkv.weight", {query_width() + 2 * kv_width(), c}, matrix),
                                     spec("attention.output.weight", {c, query_width()}, residual),
                                     spec("mlp.norm.weight", {c}, one),
                                     spec("mlp.gate_up.weight", {2 * f, c}, matrix),
                                     spec("mlp.down.weight", {c, f}, residual)};
  for (const Linear* linear : {&qkv_, &output_, &gate_up_, &down_}) linear->add_parameters(list);
  return list;
}

std::vector<BufferSpec> LlamaLayer::saved(const Shape& s) const {
  const int64_t n = s.rows(), c = options_.width;
  const DType t = options_.dtype;
  std::vector<BufferSpec> list = {
      {"r1", {n, c}, t, Keep::entry},
      {"rstd1", {n}, DType::fp32, Keep::entry},
      {"h1", {n, c}, t, Keep::all},
      {"qkv", {s.samples, s.length, query_width() + 2 * kv_width()}, t, Keep::selective},
      {"attended", {s.samples, s.length, query_width()}, t, Keep::selective},
      {"log_sum", {s.samples, options_.heads.heads, s.length}, DType::fp32, Keep::selective},
      {"r2", {n, c}, t, Keep::selective},
      {"rstd2", {n}, DType::fp32, Keep::selective},
      {"h2", {n, c}, t, Keep::all},
      {"gate_up", {n, 2 * options_.ffn_width}, t, Keep::selective},
      {"activated", {n, options_.ffn_width}, t, Keep::all}};
  for (const Linear* linear : {&qkv_, &output_, &gate_up_, &down_}) linear->add_saved(s, t, list);
  return list;
}

std::vector<BufferSpec> LlamaLayer::scratch(const Shape& s) const {
  const int64_t n = s.rows();
  const DType t = options_.dtype;
  std::vector<BufferSpec> list = {{"d_h", {n, options_.width}, t},
                                  {"d_activated", {n, options_.ffn_width}, t},
                                  {"d_gate_up", {n, 2 * options_.ffn_width}, t},
                                  {"d_qkv", {s.samples, s.length, query_width() + 2 * kv_width()}, t},
                                  {"d_attended", {s.samples, s.length, query_width()}, t}};
  add_linear_scratch(options_.lora, s, std::max({options_.width, query_width(), options_.ffn_width}), t, list);
  return list;
}

Dropout LlamaLayer::dropout(float p, DropoutPlace place, const Context& context) const {
  return dropout_at(p, dropout_site(options_.index, place), context);
}

void LlamaLayer::middle(Weights w, Context& context, Saved& saved) const {
  const int64_t n = saved[kR1].size(0);
  qkv_.forward(w, saved[kQkvOut].view({n, -1}), saved[kH1], context, saved);
  rope_forward(saved[kQkvOut], context.batch->positions, options_.heads, *options_.rope);
  attend(saved[kAttended], saved[kLogSum], saved[kQkvOut], options_.index, options_.heads,
         dropout(options_.attention_dropout, DropoutPlace::attention, context), context);
  const at::Tensor& output = context.scratch[kDH];
  output_.forward(w, output, saved[kAttended].view({n, -1}), context, saved);
  add_norm_forward({.sum = saved[kR1],
                    .branch = output,
                    .bias = {},
                    .dropout = dropout(options_.residual_dropout, DropoutPlace::residual, context),
                    .weight = w[kNorm2],
                    .norm_bias = {},
                    .epsilon = options_.norm_epsilon,
                    .residual = saved[kR2],
                    .normed = saved[kH2],
                    .mean = {},
                    .rstd = saved[kRstd2]});
  gate_up_.forward(w, saved[kGateUpOut], saved[kH2], context, saved);
  swiglu_forward(saved[kActivated], saved[kGateUpOut]);
}

Residual LlamaLayer::forward(Weights w, Residual x, Context& context, Saved& saved) const {
  add_norm_forward({.sum = x.sum,
                    .branch = x.branch,
                    .bias = {},
                    .dropout = dropout(options_.entry_dropout, DropoutPlace::entry, context),
                    .weight = w[kNorm1],
                    .norm_bias = {},
                    .epsilon = options_.norm_epsilon,
                    .residual = saved[kR1],
                    .normed = saved[kH1],
                    .mean = {},
                    .rstd = saved[kRstd1]});
  middle(w, context, saved);
  down_.forward(w, context.handed.branch, saved[kActivated], context, saved);
  return {.sum = saved[kR2], .branch = context.handed.branch};
}

void LlamaLayer::recompute(Weights w, Context& context, Saved& saved) const {
  if (!saved.kept[kH1]) norm_recompute(saved[kH1], saved[kR1], {}, saved[kRstd1], w[kNorm1], {});
  if (!saved.kept[kQkvOut]) {  // all but the down projection, whose output no gradient needs
    middle(w, context, saved);
    return down_.recompute(w, saved[kActivated], context, saved);
  }
  if (!saved.kept[kH2]) norm_recompute(saved[kH2], saved[kR2], {}, saved[kRstd2], w[kNorm2], {});
  if (!saved.kept[kActivated]) swiglu_forward(saved[kActivated], saved[kGateUpOut]);
}

ResidualGrad LlamaLayer::backward(Weights w, ResidualGrad d, Context& context, Saved& saved, Grads& grads) const {
  const int64_t n = saved[kR1].size(0);
  const auto& scratch = context.scratch;
  const Handed& out = context.handed;

  down_.backward(w, scratch[kDActivated], d.branch, saved[kActivated], context, saved, grads);
  swiglu_backward(scratch[kDGateUp], scratch[kDActivated], saved[kGateUpOut]);
  gate_up_.backward(w, scratch[kDH], scratch[kDGateUp], saved[kH2], context, saved, grads);

  const Dropout residual = dropout(options_.residual_dropout, DropoutPlace::residual, context);
  add_norm_backward({.d_normed = scratch[kDH],
                     .d_sum = d.sum,
                     .residual = saved[kR2],
                     .mean = {},
                     .rstd = saved[kRstd2],
                     .weight = w[kNorm2],
                     .dropout = residual,
                     .d_residual = out.d_sum,
                     .d_branch = out.d_branch,
                     .d_weight = grads.target(kNorm2),
                     .d_norm_bias = {},
                     .d_bias = {}});
  const at::Tensor& d_output = residual.p > 0 ? out.d_branch : out.d_sum;
  output_.backward(w, scratch[kDAttended].view({n, -1}), d_output, saved[kAttended].view({n, -1}), context, saved,
                   grads);
  attention_backward(scratch[kDQkv], scratch[kDAttended], saved[kAttended], saved[kLogSum], saved[kQkvOut],
                     options_.heads, dropout(options_.attention_dropout, DropoutPlace::attention, context),
                     context.batch->first_keys);
  rope_backward(scratch[kDQkv], context.batch->positions, options_.heads, *options_.rope);
  qkv_.backward(w, scratch[kDH], scratch[kDQkv].view({n, -1}), saved[kH1], context, saved, grads);

  const Dropout entry = dropout(options_.entry_dropout, DropoutPlace::entry, context);
  add_norm_backward({.d_normed = scratch[kDH],
                     .d_sum = out.d_sum,
                     .residual = saved[kR1],
                     .mean = {},
                     .rstd = saved[kRstd1],
                     .weight = w[kNorm1],
                     .dropout = entry,
                     .d_residual = out.d_sum,
                     .d_branch = out.d_branch,
                     .d_weight = grads.target(kNorm1),
                     .d_norm_bias = {},
                     .d_bias = {}});
  return {.sum = out.d_sum, .branch = entry.p > 0 ? out.d_branch : out.d_sum};
}

}  // namespace partita
