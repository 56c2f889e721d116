#include "partita/nn/llama_layer.h"

#include <algorithm>

#include "partita/nn/parts.h"
#include "partita/ops/activation.h"
#include "partita/ops/fp8.h"
#include "partita/ops/norm.h"

namespace partita::internal {

LlamaLayer::LlamaLayer(LlamaLayerOptions options)
    : options_(std::move(options)),
      local_(local_layer(layer(), options_.heads)),
      places_{.parameter = kParameters,
              .slot = kSlots,
              .scratch = kTemporaries,
              .fp8 = layer().fp8,
              .scales = kScales,
              .tensor = layer().tensor},
      qkv_({.weight = kQkv,
            .in = layer().width,
            .replicated = !layer().divides_attention,
            .parts = attention_parts(options_.heads.heads, options_.heads.kv_heads, options_.heads.head_width)},
           layer().index, options_.lora, places_),
      output_({.weight = kOutput,
               .measured = false,
               .in = query_width(),
               .split = Split::columns,
               .replicated = !layer().divides_attention,
               .parts = {{.name = "attention.output",
                          .rows = layer().width,
                          .quantum = query_width() / options_.heads.kv_heads,
                          .inner = options_.heads.head_width}}},
              layer().index, options_.lora, places_),
      gate_up_({.weight = kGateUp,
                .in = layer().width,
                .replicated = !layer().divides_mlp,
                .parts = gate_up_parts(layer().ffn_width)},
               layer().index, options_.lora, places_),
      down_({.weight = kDown,
             .in = layer().ffn_width,
             .split = Split::columns,
             .replicated = !layer().divides_mlp,
             .parts = {{"mlp.down", layer().width, ffn_quantum(layer().ffn_width)}}},
            layer().index, options_.lora, places_) {}

std::vector<ParameterSpec> LlamaLayer::parameters() const {
  const int64_t c = layer().width, f = layer().ffn_width;
  const Init matrix{.mean = 0, .std = layer().init_std}, one{.mean = 1, .std = 0};
  const Init residual = residual_init(layer());
  const auto spec = [&](std::string_view suffix, std::vector<int64_t> shape, Init init) {
    return layer_spec(layer(), suffix, std::move(shape), init);
  };
  std::vector<ParameterSpec> list = {spec("attention.norm.weight", {c}, one),
                                     spec("attention.qkv.weight", {query_width() + 2 * kv_width(), c}, matrix),
                                     spec("attention.output.weight", {c, query_width()}, residual),
                                     spec("mlp.norm.weight", {c}, one),
                                     spec("mlp.gate_up.weight", {2 * f, c}, matrix),
                                     spec("mlp.down.weight", {c, f}, residual)};
  for (const Linear* linear : {&qkv_, &output_, &gate_up_, &down_}) linear->add_parameters(list);
  set_local_boxes(list, layer().tensor);
  return list;
}

std::vector<BufferSpec> LlamaLayer::saved(const Shape& s) const {
  const int64_t rows = s.rows(), n = layer().tensor.stream_rows(rows), c = layer().width;
  const DType t = layer().dtype;
  std::vector<BufferSpec> list = {{"r1", {n, c}, t, Recompute::full},
                                  {"rstd1", {n}, DType::fp32, Recompute::full},
                                  {"h1", {n, c}, t, qkv_.input_saved(rows)},
                                  {"qkv", {s.samples, s.length, local_.qkv_width()}, t, Recompute::mlp},
                                  {"attended", {s.samples, s.length, local_.query_width()}, t, Recompute::mlp},
                                  {"log_sum", {s.samples, local_.heads.heads, s.length}, DType::fp32, Recompute::mlp},
                                  {"r2", {n, c}, t, Recompute::mlp},
                                  {"rstd2", {n}, DType::fp32, Recompute::mlp},
                                  {"h2", {n, c}, t, gate_up_.input_saved(rows)},
                                  {"gate_up", {rows, 2 * local_.ffn_width}, t, Recompute::selective},
                                  {"activated", {rows, local_.ffn_width}, t, down_.input_saved(rows)},
                                  linear_scales(kLinears, layer().fp8)};
  for (const Linear* linear : {&qkv_, &output_, &gate_up_, &down_}) linear->add_saved(s, t, list);
  return list;
}

std::vector<BufferSpec> LlamaLayer::scratch(const Shape& s) const {
  const int64_t rows = s.rows(), n = layer().tensor.stream_rows(rows), c = layer().width;
  const int64_t qkv = local_.qkv_width(), ffn = local_.ffn_width;
  const DType t = layer().dtype;
  std::vector<BufferSpec> list = {{"d_h", {keeps_input(qkv_) || keeps_input(gate_up_) ? n : 0, c}, t},
                                  {"d_activated", {keeps_input(down_) ? rows : 0, ffn}, t},
                                  {"d_qkv", {s.samples, s.length, qkv}, t},
                                  {"d_attended", {s.samples, s.length, local_.query_width()}, t}};
  add_attention_scratch(s, layer(), local_.heads, list);
  const LinearSizes sizes{.stream = c,
                          .widest_in = std::max({c, local_.query_width(), ffn}),
                          .widest_out = std::max({c, qkv, 2 * ffn}),
                          .largest = c * std::max({qkv, 2 * ffn, local_.query_width()})};
  add_linear_scratch(options_.lora, places_, s, sizes, t, list);
  return list;
}

std::vector<BufferSpec> LlamaLayer::operands(const Shape& shape, BlockRecompute recompute, DType dtype,
                                             const std::vector<bool>& trained) const {
  for (const Linear* linear : {&qkv_, &output_, &gate_up_, &down_})
    if (linear->adapters() > 0) return Block::operands(shape, recompute, dtype, trained);
  const std::vector<BufferSpec> buffers = saved(shape);
  const auto stays = [&](int slot) {
    return layer().leaves_operands && is_saved(buffers[static_cast<size_t>(slot)], recompute);
  };
  std::vector<BufferSpec> list;
  const int64_t n = shape.rows();
  down_.add_operands(n, dtype, trained[kDown], false, stays(kActivated), list);
  gate_up_.add_operands(n, dtype, trained[kGateUp], stays(kGateUpOut), stays(kH2), list);
  output_.add_operands(n, dtype, trained[kOutput], false, stays(kAttended), list);
  qkv_.add_operands(n, dtype, trained[kQkv], false, stays(kH1), list);
  return list;
}

bool LlamaLayer::keeps_input(const Linear& linear) const {
  return linear.adapters() > 0 || layer().tensor.ranks > 1 || layer().leaves_operands;
}

void LlamaLayer::middle(Weights w, Context& context, Saved& saved, bool again) const {
  const int64_t n = all_rows(context);
  qkv_.forward(w, saved[kQkvOut].view({n, -1}), saved[kH1], context, saved, again);
  rope_forward(saved[kQkvOut], context.batch->positions, local_.heads, *options_.rope);
  attend(saved[kAttended], saved[kLogSum], saved[kQkvOut], layer().index, local_.heads,
         layer_dropout(layer(), DropoutSite::attention, context, local_.first_head), attention_memory(context),
         context);
  const at::Tensor& output = context.outputs.branch;  // its input value is already added to r1
  output_.forward(w, output, saved[kAttended].view({n, -1}), context, saved, again);
  add_norm_forward({.sum = saved[kR1],
                    .branch = output,
                    .bias = {},
                    .dropout = layer_dropout(layer(), DropoutSite::residual, context),
                    .weight = w[kNorm2],
                    .norm_bias = {},
                    .epsilon = layer().norm_epsilon,
                    .residual = saved[kR2],
                    .normed = saved[kH2],
                    .mean = {},
                    .rstd = saved[kRstd2],
                    .amax = gate_up_.input_amax(context, saved, n)});
  gate_up_.forward(w, saved[kGateUpOut], saved[kH2], context, saved, again);
  swiglu_forward(saved[kActivated], saved[kGateUpOut], down_.input_amax(context, saved, n));
}

Residual LlamaLayer::forward(Weights w, Residual x, Context& context, Saved& saved) const {
  begin_scales(context, saved[kScales]);
  add_norm_forward({.sum = x.sum,
                    .branch = x.branch,
                    .bias = {},
                    .dropout = layer_dropout(layer(), DropoutSite::entry, context),
                    .weight = w[kNorm1],
                    .norm_bias = {},
                    .epsilon = layer().norm_epsilon,
                    .residual = saved[kR1],
                    .normed = saved[kH1],
                    .mean = {},
                    .rstd = saved[kRstd1],
                    .amax = qkv_.input_amax(context, saved, all_rows(context))});
  middle(w, context, saved, false);
  down_.forward(w, context.outputs.branch, saved[kActivated], context, saved);
  return {.sum = saved[kR2], .branch = context.outputs.branch};
}

void LlamaLayer::recompute(Weights w, Context& context, Saved& saved) const {
  const int64_t n = all_rows(context);
  const bool kept_h1 = qkv_.kept_input(saved, kH1, n), kept_h2 = gate_up_.kept_input(saved, kH2, n);
  if (!kept_h1) norm_recompute(saved[kH1], saved[kR1], {}, saved[kRstd1], w[kNorm1], {});
  if (!saved.kept[kQkvOut]) {  // all but the down projection, whose output backward does not need
    middle(w, context, saved, true);
    down_.keep_input(saved[kActivated], context, saved);
    return down_.recompute(w, saved[kActivated], context, saved);
  }
  if (!kept_h1) qkv_.keep_input(saved[kH1], context, saved);
  if (!output_.kept_input(saved, kAttended, n)) output_.keep_input(saved[kAttended].view({n, -1}), context, saved);
  if (!kept_h2) norm_recompute(saved[kH2], saved[kR2], {}, saved[kRstd2], w[kNorm2], {});
  if (!saved.kept[kGateUpOut])
    gate_up_.forward(w, saved[kGateUpOut], saved[kH2], context, saved, true);
  else if (!kept_h2)
    gate_up_.keep_input(saved[kH2], context, saved);
  if (!down_.kept_input(saved, kActivated, n)) {
    swiglu_forward(saved[kActivated], saved[kGateUpOut]);
    down_.keep_input(saved[kActivated], context, saved);
  }
}

ResidualGrad LlamaLayer::backward(Weights w, ResidualGrad d, Context& context, Saved& saved, Grads& grads) const {
  const int64_t n = all_rows(context);
  const auto& scratch = context.scratch;
  const OutputBuffers& out = context.outputs;

  const ContextParallel::Gathering keys = start_keys(saved[kQkvOut], local_.heads, attention_memory(context), context);

  // Gradients overwrite activations that are no longer needed.
  const at::Tensor& d_activated = keeps_input(down_) ? scratch[kDActivated] : saved[kActivated];
  const at::Tensor& d_gate_up = saved[kGateUpOut];
  const at::Tensor& d_h2 = keeps_input(gate_up_) ? scratch[kDH] : saved[kH2];
  const at::Tensor& d_h1 = keeps_input(qkv_) ? scratch[kDH] : saved[kH1];
  down_.backward(w, d_activated, d.branch, saved[kActivated], context, saved, grads, d.scale);
  swiglu_backward(d_gate_up, d_activated, saved[kGateUpOut], gate_up_.gradient_amax(context, saved, n));
  gate_up_.backward(w, d_h2, d_gate_up, saved[kH2], context, saved, grads, gate_up_.gradient_scale(context, saved, n));

  const Dropout residual = layer_dropout(layer(), DropoutSite::residual, context);
  stream_norm_backward({.d_normed = d_h2,
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
                        .d_bias = {},
                        .amax = output_.gradient_amax(context, saved, n)},
                       context);
  const at::Tensor& d_output = residual.p > 0 ? out.d_branch : out.d_sum;
  output_.backward(w, scratch[kDAttended].view({n, -1}), d_output, saved[kAttended].view({n, -1}), context, saved,
                   grads, output_.gradient_scale(context, saved, n));
  attend_backward(scratch[kDQkv], scratch[kDAttended], saved[kAttended], saved[kLogSum], saved[kQkvOut], local_.heads,
                  layer_dropout(layer(), DropoutSite::attention, context, local_.first_head), attention_memory(context),
                  keys, context);
  rope_backward(scratch[kDQkv], context.batch->positions, local_.heads, *options_.rope);
  qkv_.backward(w, d_h1, scratch[kDQkv].view({n, -1}), saved[kH1], context, saved, grads);

  const Dropout entry = layer_dropout(layer(), DropoutSite::entry, context);
  const at::Tensor d_scale = begin_branch_scale(context, layer().fp8);
  stream_norm_backward({.d_normed = d_h1,
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
                        .d_bias = {},
                        .amax = d_scale.defined() ? d_scale.narrow(0, kFp8Expected, 1) : at::Tensor()},
                       context);
  return {.sum = out.d_sum, .branch = entry.p > 0 ? out.d_branch : out.d_sum, .scale = d_scale};
}

}  // namespace partita::internal
