#include "partita/nn/layer.h"

#include <fmt/format.h>

#include <cmath>

#include "partita/base/error.h"
#include "partita/nn/kv_cache.h"

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
  return {.p = p, .site = site, .now = context.now, .samples = context.samples};
}

Dropout layer_dropout(const LayerOptions& layer, DropoutSite place, const Context& context) {
  const float p = place == DropoutSite::entry       ? layer.entry_dropout
                  : place == DropoutSite::attention ? layer.attention_dropout
                                                    : layer.residual_dropout;
  return dropout_at(p, dropout_site(layer.index, place), context);
}

void attend(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, int64_t layer, Heads heads, const Dropout& dropout,
            Context& context) {
  if (context.cache == nullptr) return attention_forward(out, log_sum, qkv, heads, dropout, context.batch->first_keys);
  PARTITA_CHECK(!context.batch->first_keys.defined(), "a cache holds one document");
  const auto index = static_cast<size_t>(layer);
  attention_cached(out, qkv, context.cache->keys[index], context.cache->values[index], context.cache->past, heads);
}

}  // namespace partita::internal
