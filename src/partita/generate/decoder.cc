#include "partita/generate/decoder.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"

namespace partita::internal {

Decoder::Decoder(Engine& engine, const ModelConfig& model, DType compute, int64_t most_tokens, at::Device device)
    : engine_(&engine),
      vocabulary_(model.vocab_size),
      max_length_(std::clamp<int64_t>(most_tokens, 1, model.max_length)),
      cache_(make_kv_cache(model.layers,
                           {.heads = model.heads, .kv_heads = model.key_value_heads(), .head_width = model.head_size()},
                           {.samples = 1, .length = max_length_}, compute, device)),
      positions_(static_cast<size_t>(max_length_)) {
  std::iota(positions_.begin(), positions_.end(), 0);
}

at::Tensor Decoder::append(std::span<const int32_t> tokens) {
  PARTITA_CHECK(!tokens.empty(), "nothing to read");
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  auto length = static_cast<int64_t>(tokens.size());
  if (cache_.past + length > max_length_) {
    cache_.past = 0;
    length = kept_tokens(max_length_);
    begin_ = text_.size() - static_cast<size_t>(length);
  }
  const auto view = [length](int32_t* last) { return at::from_blob(last - length, {1, length}, at::kInt); };
  const Batch batch{.tokens = view(text_.data() + text_.size()),
                    .labels = {},
                    .positions = view(positions_.data() + cache_.past + length),
                    .samples = {0},
                    .first_keys = {}};
  return engine_->logits(batch, vocabulary_, &cache_).view({vocabulary_});
}

}  // namespace partita::internal
