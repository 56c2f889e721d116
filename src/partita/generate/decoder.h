// Next-token logits for a text that grows token by token. A KV cache of past tokens makes the cost of a new token one
// position, regardless of the prefix length.
//
//   Decoder decoder(engine, model, prompt.size() + tokens);
//   at::Tensor logits = decoder.append(prompt);
//   while (...) logits = decoder.append({&token, 1});
//
// A text that outgrows the model's positions continues with its last half as context, which is recomputed. That happens
// rarely, not at every token as with a sliding window.
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
  // Allocates memory for at most `most_tokens` tokens, or the model's positions if fewer. Keeps a reference to the
  // engine. Keys and values have the engine's compute dtype and device.
  Decoder(Engine& engine, const ModelConfig& model, DType compute, int64_t most_tokens, at::Device = at::kCPU);

  // Appends at least one token. Returns logits [vocabulary] in fp32 for the next token. Error: `tokens` is empty.
  [[nodiscard]] at::Tensor append(std::span<const int32_t> tokens);

  // Number of trailing tokens kept when a text outgrows `length` positions.
  [[nodiscard]] static constexpr int64_t kept_tokens(int64_t length) { return (length + 1) / 2; }
  // The tokens that the latest logits are based on.
  [[nodiscard]] std::span<const int32_t> context() const { return std::span(text_).subspan(begin_); }

 private:
  Engine* engine_;
  int64_t vocabulary_, max_length_;
  KvCache cache_;
  std::vector<int32_t> text_, positions_;
  size_t begin_ = 0;  // start of the context in text_
};

}  // namespace partita::internal
