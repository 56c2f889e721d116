#include "partita/models/flops.h"

#include <algorithm>
#include <array>

namespace partita {
namespace {

double attention_width(const ModelConfig& m) { return static_cast<double>(m.heads * m.head_size()); }

// FLOPs per layer and token, forward.
double first_mlp_product(const ModelConfig& m) {
  const int64_t rows = (m.kind == ModelKind::llama ? 2 : 1) * m.ffn_size();
  return 2.0 * static_cast<double>(m.hidden_size) * static_cast<double>(rows);
}

struct Card {
  std::string_view part;  // substring of the name
  double half, fp32;      // TFLOP/s
};

// The first match counts. Dense peaks from NVIDIA data sheets: H100, H100 NVL, H200, H200 NVL, GH200.
constexpr std::array<Card, 6> kCards = {{{"H100 PCIe", 756, 51},
                                         {"H100 NVL", 835, 60},
                                         {"H200 NVL", 835, 60},
                                         {"GH200", 989, 67},
                                         {"H200", 989, 67},
                                         {"H100", 989, 67}}};

}  // namespace

int64_t counted_parameters(const ModelConfig& m) {
  const int64_t token_table = m.has_tied_head() ? 0 : m.vocab_size * m.hidden_size;
  const int64_t position_table = m.kind == ModelKind::gpt2 ? m.max_length * m.hidden_size : 0;
  return parameter_count(m) - token_table - position_table;
}

double training_flops(const ModelConfig& m, int64_t length, AttentionCount count) {
  const double factor = count == AttentionCount::full ? 12 : 6;
  return 6.0 * static_cast<double>(counted_parameters(m)) +
         factor * static_cast<double>(m.layers) * attention_width(m) * static_cast<double>(length);
}

double repeated_flops(const ModelConfig& m, int64_t length, Recompute recompute, int64_t full_recompute_layers) {
  const double whole = training_flops(m, length, AttentionCount::full) / 3;
  if (recompute == Recompute::full) return whole;
  const int64_t entries = std::min(full_recompute_layers, m.layers);
  const double share = static_cast<double>(entries) / static_cast<double>(m.layers);
  const double others =
      recompute == Recompute::mlp ? static_cast<double>(m.layers - entries) * first_mlp_product(m) : 0;
  return share * whole + others;
}

double peak_flops(std::string_view card, DType compute) {
  for (const Card& known : kCards)
    if (card.find(known.part) != std::string_view::npos)
      return (compute == DType::fp32 ? known.fp32 : known.half) * 1e12;
  return 0;
}

}  // namespace partita
