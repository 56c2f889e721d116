#include "partita/nn/gpt2_layer.h"

#include <algorithm>

#include "partita/nn/parts.h"
#include "partita/ops/activation.h"
#include "partita/ops/fp8.h"
#include "partita/ops/linear_gelu.h"
#include "partita/ops/matmul.h"

namespace partita::internal {

std::string down_bias_name(int64_t index) { return layer_parameter(index, "mlp.down.bias"); }

Gpt2Layer::Gpt2Layer(Gpt2LayerOptions options)
    : options_(std::move(options)),
      local_(local_layer(layer(), all_heads())),
      places_{.parameter = layer().index > 0 ? kEntryBias + 1 : kEntryBias,
              .slot = kSlots,
              .scratch = kTemporaries,
              .fp8 = layer().fp8,
              .scales = kScales,
              .tensor = layer().tensor},
      qkv_({.weight = kQkv,
            .bias = kQkvBias,
            .in = layer().width,
            .replicated = !layer().divides_attention,
            .parts = attention_parts(options_.heads, options_.heads, all_heads().head_width),
            .adapter = "attention.qkv"},
           layer().index, options_.lora, places_),
      output_({.weight = kOutput,
               .measured = false,
               .in = layer().width,
               .split = Split::columns,
               .replicated = !layer().divides_attention,
               .parts = {{"attention.output", layer().width, all_heads().head_width}}},
              layer().index, options_.lora, places_),
      up_({.weight = kUp,
           .in = layer().width,
           .replicated = !layer().divides_mlp,
           .parts = ffn_parts("mlp.up", layer().ffn_width)},
          layer().index, options_.lora, places_),
      down_({.weight = kDown,
             .in = layer().ffn_width,
             .split = Split::columns,
             .replicated = !layer().divides_mlp,
             .parts = {{"mlp.down", layer().width, ffn_quantum(layer().ffn_width)}}},
            layer().index, options_.lora, places_) {}

std::vector<ParameterSpec> Gpt2Layer::parameters() const {
  const int64_t c = layer().width, f = layer().ffn_width;
  const Init matrix{.mean = 0, .std = layer().init_std}, one{.mean = 1, .std = 0}, zero{.mean = 0, .std = 0};
  const Init residual = residual_init(layer());
  const auto spec = [&](std::string_view suffix, std::vector<int64_t> shape, Init init) {
    return layer_spec(layer(), suffix, std::move(shape), init);
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
  if (layer().index > 0) list.push_back({.name = down_bias_name(layer().index - 1), .shape = {c}, .init = zero});
  for (const Linear* linear : {&qkv_, &output_, &up_, &down_}) linear->add_parameters(list);
  qkv_.split_bias(list[kQkvBias]);
  up_.split_bias(list[kUpBias]);
  set_local_boxes(list, layer().tensor);
  return list;
}

std::vector<BufferSpec> Gpt2Layer::saved(const Shape& s) const {
  const int64_t rows = s.rows(), n = layer().tensor.stream_rows(rows), c = layer().width;
  const DType t = layer().dtype;
  std::vector<BufferSpec> list = {{"r1", {n, c}, t, Recompute::full},
                                  {"mean1", {n}, DType::fp32, Recompute::full},
                                  {"rstd1", {n}, DType::fp32, Recompute::full},
                                  {"h1", {n, c}, t, qkv_.input_saved(rows)},
                                  {"qkv", {s.samples, s.length, local_.qkv_width()}, t, Recompute::mlp},
                                  {"attended", {s.samples, s.length, local_.query_width()}, t, Recompute::mlp},
                                  {"log_sum", {s.samples, local_.heads.heads, s.length}, DType::fp32, Recompute::mlp},
                                  {"r2", {n, c}, t, Recompute::mlp},
                                  {"mean2", {n}, DType::fp32, Recompute::mlp},
                                  {"rstd2", {n}, DType::fp32, Recompute::mlp},
                                  {"h2", {n, c}, t, up_.input_saved(rows)},
                                  {"up", {rows, local_.ffn_width}, t, Recompute::selective},
                                  {"activated", {rows, local_.ffn_width}, t, down_.input_saved(rows)},
                                  linear_scales(kLinears, layer().fp8)};
  for (const Linear* linear : {&qkv_, &output_, &up_, &down_}) linear->add_saved(s, t, list);
  return list;
}

std::vector<BufferSpec> Gpt2Layer::scratch(const Shape& s) const {
  const int64_t rows = s.rows(), n = layer().tensor.stream_rows(rows), c = layer().width;
  const int64_t qkv = local_.qkv_width(), attended = local_.query_width(), ffn = local_.ffn_width;
  std::vector<BufferSpec> list = {{"branch", {std::max(n * c, rows * attended)}, layer().dtype},
                                  {"wide", {rows, ffn}, layer().dtype},
                                  {"d_qkv", {s.samples, s.length, qkv}, layer().dtype}};
  add_attention_scratch(s, layer(), local_.heads, list);
  const LinearSizes sizes{.stream = c,
                          .widest_in = std::max({c, attended, ffn}),
                          .widest_out = std::max({c, qkv, ffn}),
                          .largest = c * std::max({qkv, ffn, attended})};
  add_linear_scratch(options_.lora, places_, s, sizes, layer().dtype, list);
  return list;
}

std::vector<BufferSpec> Gpt2Layer::operands(const Shape& shape, BlockRecompute recompute, DType dtype,
                                            const std::vector<bool>& trained) const {
  for (const Linear* linear : {&qkv_, &output_, &up_, &down_})
    if (linear->adapters() > 0) return Block::operands(shape, recompute, dtype, trained);
  const std::vector<BufferSpec> buffers = saved(shape);
  const auto stays = [&](int slot) { return is_saved(buffers[static_cast<size_t>(slot)], recompute); };
  std::vector<BufferSpec> list;
  const int64_t n = shape.rows();
  down_.add_operands(n, dtype, trained[kDown], false, stays(kActivated), list);
  up_.add_operands(n, dtype, trained[kUp], false, stays(kH2), list);
  output_.add_operands(n, dtype, trained[kOutput], false, stays(kAttended), list);
  qkv_.add_operands(n, dtype, trained[kQkv], false, stays(kH1), list);
  return list;
}

at::Tensor Gpt2Layer::branch(const Context& context) const {
  const int64_t n = layer().tensor.stream_rows(all_rows(context)), c = layer().width;
  return context.scratch[kBranch].narrow(0, 0, n * c).view({n, c});
}

void Gpt2Layer::middle(Weights w, Context& context, Saved& saved, bool again) const {
  const int64_t n = all_rows(context);
  qkv_.forward(w, saved[kQkvOut].view({n, -1}), saved[kH1], context, saved, again);
  attend(saved[kAttended], saved[kLogSum], saved[kQkvOut], layer().index, local_.heads,
         layer_dropout(layer(), DropoutSite::attention, context, local_.first_head), attention_memory(context),
         context);
  const at::Tensor output = branch(context);
  output_.forward(w, output, saved[kAttended].view({n, -1}), context, saved, again);
  add_norm_forward({.sum = saved[kR1],
                    .branch = output,
                    .bias = w[kOutputBias],
                    .dropout = layer_dropout(layer(), DropoutSite::residual, context),
                    .weight = w[kNorm2],
                    .norm_bias = w[kNorm2Bias],
                    .epsilon = layer().norm_epsilon,
                    .residual = saved[kR2],
                    .normed = saved[kH2],
                    .mean = saved[kMean2],
                    .rstd = saved[kRstd2],
                    .amax = up_.input_amax(context, saved, n)});
  activate(w, context, saved, again);
}

void Gpt2Layer::activate(Weights w, Context& context, Saved& saved, bool again) const {
  const int64_t n = all_rows(context);
  if (up_.adapters() == 0 && !up_.is_fp8(n)) {
    up_.gather_rows(saved[kH2], context, false, [&](const RowRun& run, const at::Tensor& h) {
      linear_gelu_forward(rows_of(saved[kActivated], run), rows_of(saved[kUpOut], run), h, w[kUp], w[kUpBias]);
    });
    return;
  }
  up_.forward(w, saved[kUpOut], saved[kH2], context, saved, again);
  bias_gelu_forward(saved[kActivated], saved[kUpOut], w[kUpBias], down_.input_amax(context, saved, n));
}

Residual Gpt2Layer::forward(Weights w, Residual x, Context& context, Saved& saved) const {
  begin_scales(context, saved[kScales]);
  add_norm_forward({.sum = x.sum,
                    .branch = x.branch,
                    .bias = layer().index > 0 ? w[kEntryBias] : at::Tensor(),
                    .dropout = layer_dropout(layer(), DropoutSite::entry, context),
                    .weight = w[kNorm1],
                    .norm_bias = w[kNorm1Bias],
                    .epsilon = layer().norm_epsilon,
                    .residual = saved[kR1],
                    .normed = saved[kH1],
                    .mean = saved[kMean1],
                    .rstd = saved[kRstd1],
                    .amax = qkv_.input_amax(context, saved, all_rows(context))});
  middle(w, context, saved, false);
  down_.forward(w, context.outputs.branch, saved[kActivated], context, saved);
  return {.sum = saved[kR2], .branch = context.outputs.branch};
}

void Gpt2Layer::recompute(Weights w, Context& context, Saved& saved) const {
  const int64_t n = all_rows(context);
  const bool kept_h1 = qkv_.kept_input(saved, kH1, n), kept_h2 = up_.kept_input(saved, kH2, n);
  if (!kept_h1) norm_recompute(saved[kH1], saved[kR1], saved[kMean1], saved[kRstd1], w[kNorm1], w[kNorm1Bias]);
  if (!saved.kept[kQkvOut]) {  // all but the down projection, whose output backward does not need
    middle(w, context, saved, true);
    down_.keep_input(saved[kActivated], context, saved);
    return down_.recompute(w, saved[kActivated], context, saved);
  }
  if (!kept_h1) qkv_.keep_input(saved[kH1], context, saved);
  if (!output_.kept_input(saved, kAttended, n)) output_.keep_input(saved[kAttended].view({n, -1}), context, saved);
  if (!kept_h2) norm_recompute(saved[kH2], saved[kR2], saved[kMean2], saved[kRstd2], w[kNorm2], w[kNorm2Bias]);
  if (!saved.kept[kUpOut]) {
    activate(w, context, saved, true);
    return down_.keep_input(saved[kActivated], context, saved);
  }
  if (!kept_h2) up_.keep_input(saved[kH2], context, saved);
  if (!down_.kept_input(saved, kActivated, n)) {
    gelu_recompute(saved[kActivated], saved[kUpOut]);
    down_.keep_input(saved[kActivated], context, saved);
  }
}

void Gpt2Layer::d_gelu(const at::Tensor& wide, Context& context, Saved& saved, Grads& grads) const {
  const int64_t n = all_rows(context);
  const at::Tensor amax = up_.gradient_amax(context, saved, n);
  if (!up_.is_replicated()) return bias_gelu_backward(wide, wide, saved[kUpOut], grads.target(kUpBias), amax);
  const RowRun mine = layer().tensor.part(n), end{mine.begin + mine.count, n - mine.begin - mine.count};
  for (const RowRun& run : {RowRun{0, mine.begin}, mine, end})
    if (run.count > 0)
      bias_gelu_backward(rows_of(wide, run), rows_of(wide, run), rows_of(saved[kUpOut], run),
                         run == mine ? grads.target(kUpBias) : Target{}, amax);
}

ResidualGrad Gpt2Layer::backward(Weights w, ResidualGrad d, Context& context, Saved& saved, Grads& grads) const {
  const int64_t n = all_rows(context);
  const at::Tensor d_h = branch(context);  // the gradient of attention's output is in the same memory
  const at::Tensor d_attended = context.scratch[kBranch].narrow(0, 0, n * local_.query_width()).view({n, -1});
  const at::Tensor &wide = context.scratch[kWide], &d_qkv = context.scratch[kDQkv];
  const OutputBuffers& out = context.outputs;

  const ContextParallel::Gathering keys = start_keys(saved[kQkvOut], local_.heads, attention_memory(context), context);

  // Then the gradient of GELU is a kernel of its own, which measures the gradient of the up projection's output.
  const bool separate = down_.adapters() > 0 || down_.is_fp8(n) || down_.is_replicated();
  if (!separate) {
    const at::Tensor d_branch =
        down_.gather_rows(d.branch, context, true, [&](const RowRun& run, const at::Tensor& part) {
          linear_gelu_backward(rows_of(wide, run), part, w[kDown], rows_of(saved[kUpOut], run), grads.target(kUpBias));
        });
    grads.matmul(kDown, d_branch, saved[kActivated]);
  } else {
    down_.backward(w, wide, d.branch, saved[kActivated], context, saved, grads, d.scale);
    d_gelu(wide, context, saved, grads);
  }
  up_.backward(w, d_h, wide, saved[kH2], context, saved, grads,
               separate ? up_.gradient_scale(context, saved, n) : at::Tensor());

  const Dropout residual = layer_dropout(layer(), DropoutSite::residual, context);
  stream_norm_backward({.d_normed = d_h,
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
                        .d_bias = grads.target(kOutputBias),
                        .amax = output_.gradient_amax(context, saved, n)},
                       context);
  const at::Tensor& d_output = residual.p > 0 ? out.d_branch : out.d_sum;
  output_.backward(w, d_attended, d_output, saved[kAttended].view({n, -1}), context, saved, grads,
                   output_.gradient_scale(context, saved, n));
  attend_backward(d_qkv, d_attended.view(saved[kAttended].sizes()), saved[kAttended], saved[kLogSum], saved[kQkvOut],
                  local_.heads, layer_dropout(layer(), DropoutSite::attention, context, local_.first_head),
                  attention_memory(context), keys, context);
  qkv_.backward(w, d_h, d_qkv.view({n, -1}), saved[kH1], context, saved, grads);

  const Dropout entry = layer_dropout(layer(), DropoutSite::entry, context);
  const at::Tensor d_scale = begin_branch_scale(context, layer().fp8);
  stream_norm_backward({.d_normed = d_h,
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
                        .d_bias = layer().index > 0 ? grads.target(kEntryBias) : Target{},
                        .amax = d_scale.defined() ? d_scale.narrow(0, kFp8Expected, 1) : at::Tensor()},
                       context);
  return {.sum = out.d_sum, .branch = entry.p > 0 ? out.d_branch : out.d_sum, .scale = d_scale};
}

}  // namespace partita::internal
