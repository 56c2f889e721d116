#include "partita/nn/layer.h"

#include <fmt/format.h>

#include <cmath>

#include "partita/base/error.h"
#include "partita/nn/kv_cache.h"
#include "partita/nn/parts.h"
#include "partita/nn/tensor_parallel.h"

namespace partita::internal {
namespace {

constexpr uint32_t kPlaces = 3;
constexpr uint32_t kAdapters = 16;            // maximum per layer
constexpr uint32_t kAdapterSites = 1U << 31;  // above the sites of all layers

}  // namespace

std::string layer_parameter(int64_t layer, std::string_view suffix) {
  return fmt::format("layers.{}.{}", layer, suffix);
}

ParameterSpec layer_spec(const LayerOptions& layer, std::string_view suffix, std::vector<int64_t> shape, Init init) {
  const bool decay = shape.size() > 1;
  return {.name = layer_parameter(layer.index, suffix), .shape = std::move(shape), .init = init, .decay = decay};
}

Init residual_init(const LayerOptions& layer) {
  return {.mean = 0, .std = layer.init_std / std::sqrt(2.0 * static_cast<double>(layer.layers))};
}

uint32_t dropout_site(int64_t layer, DropoutSite place) {
  return static_cast<uint32_t>(layer) * kPlaces + static_cast<uint32_t>(place);
}

uint32_t adapter_dropout_site(int64_t layer, int64_t adapter) {
  return kAdapterSites + static_cast<uint32_t>(layer) * kAdapters + static_cast<uint32_t>(adapter);
}

Dropout dropout_at(float p, uint32_t site, const Context& context) {
  if (context.mode != Mode::train) return {};
  return {.p = p,
          .site = site,
          .now = context.now,
          .samples = context.samples,
          .context = context.sequence == nullptr ? ContextSplit{} : context.sequence->split()};
}

Dropout layer_dropout(const LayerOptions& layer, DropoutSite place, const Context& context, int64_t first_head) {
  const uint32_t site = dropout_site(layer.index, place);
  if (place != DropoutSite::attention)
    return stream_dropout(place == DropoutSite::entry ? layer.entry_dropout : layer.residual_dropout, site, context);
  Dropout dropout = dropout_at(layer.attention_dropout, site, context);
  dropout.first_head = first_head;
  return dropout;
}

Dropout stream_dropout(float p, uint32_t site, const Context& context) {
  Dropout dropout = dropout_at(p, site, context);
  if (context.tensor != nullptr) {
    dropout.rows = all_rows(context);
    dropout.first_row = context.tensor->split().first_row(dropout.rows);
  }
  return dropout;
}

LocalLayer local_layer(const LayerOptions& layer, const Heads& heads) {
  const auto held = [&](const char* name, std::vector<ParameterPart> parts, bool divided) {
    int64_t rows = 0;
    for (const ParameterPart& part : parts) rows += part.rows;
    return local_boxes({.name = layer_parameter(layer.index, name),
                        .shape = {rows, layer.width},
                        .split = Split::rows,
                        .parts = std::move(parts)},
                       divided ? layer.tensor.rank : 0, divided ? layer.tensor.ranks : 1);
  };
  const auto qkv = held("attention.qkv.weight", attention_parts(heads.heads, heads.kv_heads, heads.head_width),
                        layer.divides_attention);
  const auto up = held("mlp.up.weight", ffn_parts("mlp.up", layer.ffn_width), layer.divides_mlp);
  return {.heads = {.heads = qkv[0].box.rows / heads.head_width,
                    .kv_heads = qkv[1].box.rows / heads.head_width,
                    .head_width = heads.head_width},
          .first_head = qkv[0].box.row / heads.head_width,
          .ffn_width = up[0].box.rows};
}

void stream_norm_backward(const AddNormBackward& op, const Context& context) {
  if (context.tensor == nullptr || context.tensor->split().splits_rows(all_rows(context))) return add_norm_backward(op);
  const TensorSplit& split = context.tensor->split();
  const int64_t rows = op.residual.size(0);
  const RowRun mine = split.part(rows);
  const int64_t begin = mine.begin, end = mine.begin + mine.count;
  const auto part = [&](int64_t first, int64_t last, bool own) {
    if (first == last) return;
    const auto rows_of = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, first, last - first) : t; };
    AddNormBackward some = op;
    for (at::Tensor AddNormBackward::*t :
         {&AddNormBackward::d_normed, &AddNormBackward::d_sum, &AddNormBackward::residual, &AddNormBackward::mean,
          &AddNormBackward::rstd, &AddNormBackward::d_residual, &AddNormBackward::d_branch})
      some.*t = rows_of(op.*t);
    some.dropout.first_row = op.dropout.first_row + first;
    if (!own) some.d_weight = some.d_norm_bias = some.d_bias = {};
    add_norm_backward(some);
  };
  part(0, begin, false);
  if (begin == end)  // fewer rows than ranks
    for (const Target& target : {op.d_weight, op.d_norm_bias, op.d_bias})
      if (target.gradient.defined() && !target.accumulate) target.gradient.zero_();
  part(begin, end, true);
  part(end, rows, false);
}

void add_attention_scratch(const Shape& shape, const LayerOptions& layer, const Heads& local,
                           std::vector<BufferSpec>& list) {
  const int64_t rows = layer.context.cuts() ? layer.context.ranks * shape.rows() : 0;
  for (const char* name : {"whole_keys", "keys_by_rank"})
    list.push_back({name, {rows, 2 * local.kv_heads * local.head_width}, layer.dtype});
}

void attend(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, int64_t layer, Heads heads, const Dropout& dropout,
            const AttentionMemory& memory, Context& context) {
  if (context.cache == nullptr) {
    WholeKeys keys;
    if (context.sequence != nullptr) keys = context.sequence->wait(start_keys(qkv, heads, memory, context));
    return attention_forward(out, log_sum, qkv, heads, dropout, context.batch->first_keys, keys);
  }
  PARTITA_CHECK(!context.batch->first_keys.defined(), "a cache holds one document");
  const auto index = static_cast<size_t>(layer);
  attention_cached(out, qkv, context.cache->keys[index], context.cache->values[index], context.cache->past, heads);
}

ContextParallel::Gathering start_keys(const at::Tensor& qkv, Heads heads, const AttentionMemory& memory,
                                      const Context& context) {
  if (context.sequence == nullptr) return {};
  return context.sequence->start_gather(qkv, heads, memory.whole, memory.by_rank);
}

void attend_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv,
                     Heads heads, const Dropout& dropout, const AttentionMemory& memory,
                     const ContextParallel::Gathering& gathering, Context& context) {
  const at::Tensor& first_keys = context.batch->first_keys;
  if (context.sequence == nullptr)
    return attention_backward(d_qkv, d_out, out, log_sum, qkv, heads, dropout, first_keys);
  const WholeKeys keys = context.sequence->wait(gathering);
  // Gathering is done: the gradients take its memory, and leave in that of the keys.
  const at::Tensor d_keys = memory.by_rank.view(keys.keys_values.sizes());
  attention_backward(d_qkv, d_out, out, log_sum, qkv, heads, dropout, first_keys, keys, d_keys);
  context.sequence->sum(d_qkv, d_keys, heads, memory.whole);
}

}  // namespace partita::internal
