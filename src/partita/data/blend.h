// Samples of several datasets in one order, by weight, as Megatron-LM blends them (blended_dataset.py,
// blended_megatron_dataset_builder.py, helpers.cpp). Pure functions.
//
//   const std::vector<BlendPart> parts = parse_blend({"0.7", "data/web", "0.3", "data/books"});
//   const std::vector<double> weights = normalized_weights({0.7, 0.3});
//   const BlendIndex index = build_blend_index(weights, blend_size(weights, samples));
//   // sample k is sample index.sample[k] of dataset index.dataset[k]
//
// Each sample comes from the dataset that is furthest behind its share. A shorter blend is the beginning of a longer
// one of the same weights.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace partita::internal {

struct BlendPart {
  std::optional<double> weight;  // of all parts, or of none: then each counts by its size
  std::filesystem::path prefix;
};

// Weights and prefixes in turn, or prefixes alone. Error: a weight without a prefix or the other way round, one that is
// not more than 0, the same prefix twice.
[[nodiscard]] std::vector<BlendPart> parse_blend(std::span<const std::string> items);

// Divided by their sum, with the roundings of numpy: sum, which is pairwise from eight numbers on.
[[nodiscard]] std::vector<double> normalized_weights(std::span<const double> weights);

// The samples of a blend of at least `samples`: each part's share is rounded up. weights: normalized.
[[nodiscard]] int64_t blend_size(std::span<const double> weights, int64_t samples);
// What a part of this weight is asked for: its share and 0.5 % more.
[[nodiscard]] int64_t part_samples(double weight, int64_t samples);

struct BlendIndex {
  std::vector<int16_t> dataset;
  std::vector<int64_t> sample;  // of that dataset, each counted from 0
};

// weights: normalized. They are normalized once more, as they are there.
[[nodiscard]] BlendIndex build_blend_index(std::span<const double> weights, int64_t size);

}  // namespace partita::internal
