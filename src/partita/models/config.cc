#include "partita/models/config.h"

#include <string_view>

#include "partita/base/error.h"
#include "partita/base/random.h"

namespace partita {
namespace {

void require_at_least_one(std::string_view name, int64_t value) {
  if (value < 1) fail("model.{} is {}: expected at least 1", name, value);
}

void require_probability(std::string_view name, double value) {
  if (!(value >= 0 && value < 1)) fail("model.{} is {}: expected at least 0 and less than 1", name, value);
  // Masks have 16 bits an element (base/random.h).
  const uint32_t threshold = dropout_threshold(static_cast<float>(value));
  if (value > 0 && (threshold == 0 || threshold > 65535))
    fail("model.{} is {}: expected 0, or a probability from 1/65536 to 65535/65536", name, value);
}

// Weights of one layer's four matmuls.
int64_t layer_matmul_weights(const ModelConfig& m) {
  return 4 * m.hidden_size * m.hidden_size + 2 * m.hidden_size * m.ffn_size();
}

}  // namespace

void validate(const ModelConfig& m) {
  require_at_least_one("layers", m.layers);
  require_at_least_one("hidden_size", m.hidden_size);
  require_at_least_one("heads", m.heads);
  require_at_least_one("max_length", m.max_length);
  if (m.ffn_hidden_size < 0)
    fail("model.ffn_hidden_size is {}: expected a width, or 0 for 4 x hidden_size", m.ffn_hidden_size);
  if (m.vocab_size < 0)
    fail("model.vocab_size is {}: expected a number of tokens, or 0 for the tokenizer's", m.vocab_size);
  if (m.hidden_size % m.heads != 0) {
    const int64_t below = m.hidden_size / m.heads * m.heads, above = below + m.heads;
    if (below == 0) fail("hidden_size {} is not divisible by {} heads: use {}", m.hidden_size, m.heads, above);
    fail("hidden_size {} is not divisible by {} heads: use {} or {}", m.hidden_size, m.heads, below, above);
  }
  require_probability("dropout", m.dropout);
  require_probability("embedding_dropout", m.embedding_dropout);
  require_probability("attention_dropout", m.attention_dropout);
  if (!(m.init_std > 0)) fail("model.init_std is {}: expected more than 0", m.init_std);
  if (!(m.norm_epsilon > 0)) fail("model.norm_epsilon is {}: expected more than 0", m.norm_epsilon);
}

int64_t parameter_count(const ModelConfig& m) {
  const int64_t h = m.hidden_size, f = m.ffn_size();
  const int64_t biases = 3 * h + h + f + h, norms = 4 * h;
  return (m.vocab_size + m.max_length) * h + m.layers * (layer_matmul_weights(m) + biases + norms) + 2 * h;
}

double flops_per_token(const ModelConfig& m, int64_t length) {
  const auto matmul_weights = static_cast<double>(m.layers * layer_matmul_weights(m) + m.vocab_size * m.hidden_size);
  const double attention = 6.0 * static_cast<double>(m.layers * m.hidden_size) * static_cast<double>(length);
  return 6.0 * matmul_weights + attention;
}

}  // namespace partita
