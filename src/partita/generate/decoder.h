// The next token's logits of a text that grows token by token. Keys and values of what was read are kept, so that a
// token costs one position, whatever stands before it.
//
//   Decoder decoder(engine, model, prompt.size() + tokens);
//   at::Tensor logits = decoder.append(prompt);
//   while (...) logits = decoder.append({&token, 1});
//
// A text that outgrows the model's positions goes on with the last half of them as its context, read anew: rarely, and
// not at every token, as a window that slides would need.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "partita/engine/engine.h"
#include "partita/models/config.h"
#include "partita/nn/kv_cache.h"

namespace partita::internal {

class Decoder {
 public:
  // Memory for at most `most_tokens` tokens, the model's positions if they are fewer. Keeps a reference to the engine,
  // in whose compute dtype and on whose device keys and values are kept.
  Decoder(Engine& engine, const ModelConfig& model, DType compute, int64_t most_tokens, at::Device = at::kCPU);

  // Logits [vocabulary] fp32 of the token behind `tokens`, at least one, which go behind all those before. Error: none.
  [[nodiscard]] at::Tensor append(std::span<const int32_t> tokens);

  // Of a text that outgrows `length` positions, the last tokens that stay.
  [[nodiscard]] static constexpr int64_t kept_tokens(int64_t length) { return (length + 1) / 2; }
  // The tokens that the last logits were made from.
  [[nodiscard]] std::span<const int32_t> context() const { return std::span(text_).subspan(begin_); }

 private:
  Engine* engine_;
  int64_t vocabulary_, max_length_;
  KvCache cache_;
  std::vector<int32_t> text_, positions_;
  size_t begin_ = 0;  // of the context in text_
};

}  // namespace partita::internal
