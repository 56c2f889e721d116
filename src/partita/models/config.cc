#include "partita/models/config.h"

#include <fmt/ranges.h>

#include <string_view>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/models/size_limits.h"

namespace partita {
using namespace internal;
namespace {

void require_between(std::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) fail("model.{} is {}: expected {} to {}", name, value, least, most);
}

void require_probability(std::string_view name, double value) {
  if (!(value >= 0 && value < 1)) fail("model.{} is {}: expected at least 0 and less than 1", name, value);
  // Dropout masks use 16 bits per element (base/random.h).
  const uint32_t threshold = dropout_threshold(static_cast<float>(value));
  if (value > 0 && (threshold == 0 || threshold > 65535))
    fail("model.{} is {}: expected 0, or a probability from 1/65536 to 65535/65536", name, value);
}

// Matmul weights of one layer: qkv and output of attention; up (and gate) and down of the MLP.
int64_t layer_matmul_weights(const ModelConfig& m) {
  const int64_t q = m.heads * m.head_size(), kv = m.key_value_heads() * m.head_size();
  return m.hidden_size * (q + 2 * kv + q) + (m.kind == ModelKind::llama ? 3 : 2) * m.hidden_size * m.ffn_size();
}

// In floating point, since integers could overflow. All sizes are within their limits.
double approximate_parameters(const ModelConfig& m) {
  const auto width = static_cast<double>(m.hidden_size);
  const double attention = 4 * width * static_cast<double>(m.heads) * static_cast<double>(m.head_size());
  const double mlp = 3 * width * static_cast<double>(m.ffn_size());
  return static_cast<double>(m.layers) * (attention + mlp) +
         width * static_cast<double>(2 * m.vocab_size + m.max_length);
}

void validate_gpt2(const ModelConfig& m) {
  if (m.kv_heads != 0 && m.kv_heads != m.heads)
    fail("model.kv_heads is {}: gpt2 has as many key/value heads as heads, use 0", m.kv_heads);
  if (m.head_width != 0 && m.head_width * m.heads != m.hidden_size)
    fail("model.head_width is {}: in gpt2 it is hidden_size / heads, use 0", m.head_width);
  const ModelConfig usual;
  if (m.rope_theta != usual.rope_theta || m.rope_factor != usual.rope_factor ||
      m.rope_low_frequency != usual.rope_low_frequency || m.rope_high_frequency != usual.rope_high_frequency ||
      m.rope_original_length != usual.rope_original_length)
    fail("model.rope_theta {} or another key of rotary positions is set: gpt2 has none", m.rope_theta);
}

// "1, 2 or 4": the divisors of 4.
std::string divisors_text(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= number; ++d)
    if (number % d == 0) divisors.push_back(d);
  const int64_t last = divisors.back();
  divisors.pop_back();
  return divisors.empty() ? fmt::format("{}", last) : fmt::format("{} or {}", fmt::join(divisors, ", "), last);
}

void validate_llama(const ModelConfig& m) {
  if (m.heads % m.key_value_heads() != 0)
    fail("model.kv_heads {} does not divide model.heads {}: use {}", m.kv_heads, m.heads, divisors_text(m.heads));
  if (m.head_size() % 2 != 0)
    fail("a head of {} channels: rotary positions turn pairs, use an even model.head_width", m.head_size());
  if (!(m.rope_theta > 1)) fail("model.rope_theta is {}: expected more than 1", m.rope_theta);
  if (!(m.rope_factor >= 1)) fail("model.rope_factor is {}: expected at least 1", m.rope_factor);
  if (m.rope_factor > 1 && !(m.rope_low_frequency > 0 && m.rope_high_frequency > m.rope_low_frequency))
    fail("model.rope_low_frequency {} and rope_high_frequency {}: expected 0 < low < high", m.rope_low_frequency,
         m.rope_high_frequency);
  require_between("rope_original_length", m.rope_original_length, 1, kMostPositions);
}

}  // namespace

int64_t ModelConfig::ffn_size() const {
  if (ffn_hidden_size > 0) return ffn_hidden_size;
  if (kind == ModelKind::gpt2) return 4 * hidden_size;
  return (8 * hidden_size / 3 + 255) / 256 * 256;
}

void validate(const ModelConfig& m) {
  require_between("layers", m.layers, 1, kMostLayers);
  require_between("hidden_size", m.hidden_size, 1, kMostWidth);
  require_between("heads", m.heads, 1, kMostHeads);
  require_between("kv_heads", m.kv_heads, 0, kMostHeads);
  require_between("max_length", m.max_length, 1, kMostPositions);
  require_between("ffn_hidden_size", m.ffn_hidden_size, 0, kMostFfnWidth);
  require_between("head_width", m.head_width, 0, kMostHeads);
  require_between("vocab_size", m.vocab_size, 0, kMostPositions);
  if (m.head_width == 0 && m.hidden_size % m.heads != 0) {
    const int64_t below = m.hidden_size / m.heads * m.heads, above = below + m.heads;
    if (below == 0) fail("hidden_size {} is not divisible by {} heads: use {}", m.hidden_size, m.heads, above);
    fail("hidden_size {} is not divisible by {} heads: use {} or {}", m.hidden_size, m.heads, below, above);
  }
  require_probability("dropout", m.dropout);
  require_probability("embedding_dropout", m.embedding_dropout);
  require_probability("attention_dropout", m.attention_dropout);
  if (!(m.init_std > 0)) fail("model.init_std is {}: expected more than 0", m.init_std);
  if (!(m.norm_epsilon > 0)) fail("model.norm_epsilon is {}: expected more than 0", m.norm_epsilon);
  m.kind == ModelKind::gpt2 ? validate_gpt2(m) : validate_llama(m);
  if (const double parameters = approximate_parameters(m); parameters > kMostParameters)
    fail(
        "model.layers {}, hidden_size {}, heads x head_width {} x {}, ffn_hidden_size {}, vocab_size {} and max_length "
        "{} make {:.0e} parameters: use smaller ones",
        m.layers, m.hidden_size, m.heads, m.head_size(), m.ffn_size(), m.vocab_size, m.max_length, parameters);
}

int64_t parameter_count(const ModelConfig& m) {
  const int64_t h = m.hidden_size, f = m.ffn_size();
  const int64_t tables = (m.has_tied_head() ? 1 : 2) * m.vocab_size * h;
  if (m.kind == ModelKind::llama) return tables + m.layers * (layer_matmul_weights(m) + 2 * h) + h;
  const int64_t biases = 3 * h + h + f + h, norms = 4 * h;
  return tables + m.max_length * h + m.layers * (layer_matmul_weights(m) + biases + norms) + 2 * h;
}

double flops_per_token(const ModelConfig& m, int64_t length, bool weight_gradients) {
  const auto matmul_weights = static_cast<double>(m.layers * layer_matmul_weights(m) + m.vocab_size * m.hidden_size);
  const double attention = 6.0 * static_cast<double>(m.layers * m.heads * m.head_size()) * static_cast<double>(length);
  return (weight_gradients ? 6.0 : 4.0) * matmul_weights + attention;
}

}  // namespace partita
