// Blends the samples of several datasets by weight, as in Megatron-LM (blended_dataset.py,
// blended_megatron_dataset_builder.py, helpers.cpp). Pure functions.
//
//   const auto parts = parse_blend(std::vector<std::string>{"0.7", "data/web", "0.3", "data/books"});
//   const std::vector<double> weights = normalized_weights(std::vector{0.7, 0.3});
//   const BlendIndex index = build_blend_index(weights, blend_size(weights, samples));
//   // sample k is sample index.sample[k] of dataset index.dataset[k]
//
// Each sample comes from the dataset that is furthest behind its share. With the same weights, a shorter blend is a
// prefix of a longer one.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace partita::internal {

struct BlendPart {
  std::optional<double> weight;  // set for all parts or for none; if unset, parts are weighted by size
  std::filesystem::path prefix;
};

// Parses alternating weights and prefixes, or prefixes only. Error: a weight without a prefix or vice versa, a weight
// that is not positive, a repeated prefix.
[[nodiscard]] std::vector<BlendPart> parse_blend(std::span<const std::string> items);

// Divides by the sum, with numpy's rounding: its sum is pairwise for eight or more numbers.
[[nodiscard]] std::vector<double> normalized_weights(std::span<const double> weights);

// Number of samples in a blend of at least `samples`, with each part's share rounded up. weights: normalized.
[[nodiscard]] int64_t blend_size(std::span<const double> weights, int64_t samples);
// Number of samples to request from a part of this weight: its share plus 0.5%.
[[nodiscard]] int64_t part_samples(double weight, int64_t samples);

struct BlendIndex {
  std::vector<int16_t> dataset;
  std::vector<int64_t> sample;  // index within that dataset, counted from 0
};

// weights: normalized. They are normalized again, as Megatron-LM does.
[[nodiscard]] BlendIndex build_blend_index(std::span<const double> weights, int64_t size);

}  // namespace partita::internal
