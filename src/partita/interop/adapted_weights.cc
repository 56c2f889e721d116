#include "partita/interop/adapted_weights.h"

#include <algorithm>
#include <optional>

namespace partita::internal {

void AdaptedWeights::check(std::span<const ParameterSpec> wanted) const {
  std::vector<ParameterSpec> base, adapters;
  for (const ParameterSpec& spec : wanted) (spec.adapter ? adapters : base).push_back(spec);
  base_->check(base);
  adapters_->check(adapters);
}

void AdaptedWeights::read(const ParameterSpec& spec, const Box& box, std::span<float> out) const {
  (spec.adapter ? adapters_ : base_)->read(spec, box, out);
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

void MergedWeights::read(const ParameterSpec& spec, const Box& box, std::span<float> out) const {
  base_->read(spec, box, out);
  const auto found = by_matrix_.find(spec.name);
  if (found == by_matrix_.end()) return;
  for (const LoraAdapter& adapter : found->second) {
    const std::optional<Box> rows =
        overlap(box, {.row = adapter.row, .rows = adapter.rows, .column = 0, .columns = adapter.in});
    if (!rows) continue;
    Box product = *rows;
    product.row -= adapter.row;
    add(adapter, product, out.subspan(static_cast<size_t>(offset_in(box, *rows)), static_cast<size_t>(rows->count())));
  }
}

// out += scale * this box of B A.
void MergedWeights::add(const LoraAdapter& adapter, const Box& box, std::span<float> out) const {
  std::vector<float> a(static_cast<size_t>(rank_ * box.columns)), b(static_cast<size_t>(box.rows * rank_));
  std::vector<float> sum(static_cast<size_t>(box.columns));
  adapters_->read(a_of(adapter), {.row = 0, .rows = rank_, .column = box.column, .columns = box.columns}, a);
  adapters_->read(b_of(adapter), {.row = box.row, .rows = box.rows, .column = 0, .columns = rank_}, b);
  for (int64_t row = 0; row < box.rows; ++row) {
    std::ranges::fill(sum, 0.0F);
    for (int64_t k = 0; k < rank_; ++k) {
      const float factor = b[static_cast<size_t>(row * rank_ + k)];
      const float* from = a.data() + k * box.columns;
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += factor * from[c];
    }
    float* to = out.data() + row * box.columns;
    for (size_t c = 0; c < sum.size(); ++c) to[c] += scale_ * sum[c];
  }
}

}  // namespace partita::internal
