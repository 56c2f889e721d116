#include "partita/checkpoint/adapted_weights.h"

#include <algorithm>

namespace partita {

void AdaptedWeights::check(std::span<const ParameterSpec> wanted) const {
  std::vector<ParameterSpec> base, adapters;
  for (const ParameterSpec& spec : wanted) (spec.adapter ? adapters : base).push_back(spec);
  base_->check(base);
  adapters_->check(adapters);
}

void AdaptedWeights::read(const ParameterSpec& spec, int64_t begin, std::span<float> out) const {
  (spec.adapter ? adapters_ : base_)->read(spec, begin, out);
}

MergedWeights::MergedWeights(std::shared_ptr<const WeightSource> base, std::shared_ptr<const WeightSource> adapters,
                             const ModelConfig& model, const LoraConfig& lora)
    : base_(std::move(base)),
      adapters_(std::move(adapters)),
      rank_(lora.rank),
      scale_(static_cast<float>(lora.alpha / static_cast<double>(std::max<int64_t>(lora.rank, 1)))) {
  for (LoraAdapter& adapter : lora_adapters(model, lora)) by_matrix_[adapter.matrix].push_back(std::move(adapter));
}

ParameterSpec MergedWeights::a_of(const LoraAdapter& adapter) const {
  return {.name = adapter.a, .shape = {rank_, adapter.in}, .adapter = true};
}

ParameterSpec MergedWeights::b_of(const LoraAdapter& adapter) const {
  return {.name = adapter.b, .shape = {adapter.rows, rank_}, .adapter = true};
}

void MergedWeights::check(std::span<const ParameterSpec> wanted) const {
  std::vector<ParameterSpec> adapters;
  for (const auto& [matrix, list] : by_matrix_) {
    for (const LoraAdapter& adapter : list) {
      adapters.push_back(a_of(adapter));
      adapters.push_back(b_of(adapter));
    }
  }
  base_->check(wanted);
  adapters_->check(adapters);
}

void MergedWeights::read(const ParameterSpec& spec, int64_t begin, std::span<float> out) const {
  base_->read(spec, begin, out);
  const auto found = by_matrix_.find(spec.name);
  if (found == by_matrix_.end()) return;
  for (const LoraAdapter& adapter : found->second) {
    const int64_t first = std::max(begin, adapter.row * adapter.in);
    const int64_t last = std::min(begin + std::ssize(out), (adapter.row + adapter.rows) * adapter.in);
    if (first < last)
      add(adapter, first - adapter.row * adapter.in,
          out.subspan(static_cast<size_t>(first - begin), static_cast<size_t>(last - first)));
  }
}

// out[i] += scale * (B A)[begin + i], counted row by row.
void MergedWeights::add(const LoraAdapter& adapter, int64_t begin, std::span<float> out) const {
  const int64_t end = begin + std::ssize(out), first_row = begin / adapter.in, last_row = (end - 1) / adapter.in;
  std::vector<float> a(static_cast<size_t>(rank_ * adapter.in)),
      b(static_cast<size_t>((last_row - first_row + 1) * rank_));
  std::vector<float> sum(static_cast<size_t>(adapter.in));
  adapters_->read(a_of(adapter), 0, a);
  adapters_->read(b_of(adapter), first_row * rank_, b);
  for (int64_t row = first_row; row <= last_row; ++row) {
    std::ranges::fill(sum, 0.0F);
    for (int64_t k = 0; k < rank_; ++k) {
      const float factor = b[static_cast<size_t>((row - first_row) * rank_ + k)];
      const float* from = a.data() + k * adapter.in;
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += factor * from[c];
    }
    const int64_t first = std::max(begin, row * adapter.in), last = std::min(end, (row + 1) * adapter.in);
    for (int64_t i = first; i < last; ++i)
      out[static_cast<size_t>(i - begin)] += scale_ * sum[static_cast<size_t>(i - row * adapter.in)];
  }
}

}  // namespace partita
