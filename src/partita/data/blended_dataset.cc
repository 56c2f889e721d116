#include "partita/data/blended_dataset.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/data/order_memory.h"

namespace partita::internal {
namespace {

std::string describe(std::span<const double> weights, int64_t size) {
  return fmt::format("blend of the weights {}\nsamples {}\n", fmt::join(weights, ", "), size);
}

SharedArrays build(std::span<const double> weights, int64_t size) {
  const auto index = std::make_shared<const BlendIndex>(build_blend_index(weights, size));
  return {index, {std::as_bytes(std::span(index->dataset)), std::as_bytes(std::span(index->sample))}};
}

}  // namespace

BlendedDataset::BlendedDataset(const std::vector<Part>& parts, const GptIndexSpec& spec,
                               const GptDataset::Options& options) {
  if (parts.empty()) fail("a blend of no datasets, at least one expected");
  std::vector<double> given;
  for (const Part& part : parts) given.push_back(part.weight);
  const std::vector<double> weights = normalized_weights(given);
  int64_t most = spec.samples;
  for (const int64_t samples : options.prolonged) most = std::max(most, samples);
  constexpr int64_t kMostSamples = int64_t{1} << 50;
  if (most > kMostSamples) fail("{} samples of a blend asked for, at most {} are possible", most, kMostSamples);
  const int64_t size = blend_size(weights, most);
  const std::string name = spec.split + "-blend";
  const SharedArrays arrays = options.cache.get(name, describe(weights, size), 2, [&] {
    announce_order({.name = name,
                    .samples = size,
                    .epochs = 1,
                    .bytes = size * static_cast<int64_t>(sizeof(int16_t) + sizeof(int64_t))});
    return build(weights, size);
  });
  owner_ = arrays.owner;
  dataset_ = arrays.as<int16_t>(0);
  sample_ = arrays.as<int64_t>(1);
  // Samples to request from each part, for each planned length. If the rounding of many parts exceeds the margin, the
  // part is extended like a prolonged run.
  std::vector<int64_t> plans = {spec.samples};
  plans.insert(plans.end(), options.prolonged.begin(), options.prolonged.end());
  std::vector<std::vector<int64_t>> asked(parts.size());
  std::vector<int64_t> taken(parts.size());
  size_t at = 0;
  for (const int64_t samples : plans) {
    for (const auto end = static_cast<size_t>(blend_size(weights, samples)); at < end; ++at)
      ++taken[static_cast<size_t>(dataset_[at])];
    for (size_t d = 0; d < parts.size(); ++d) {
      asked[d].push_back(part_samples(weights[d], samples));
      asked[d].push_back(taken[d]);
    }
  }
  for (size_t d = 0; d < parts.size(); ++d) {
    GptIndexSpec of_part = spec;
    of_part.samples = asked[d][0];
    const GptDataset::Options with{options.documents, parts[d].cache, {asked[d].begin() + 1, asked[d].end()}};
    parts_.emplace_back(parts[d].tokens, parts[d].range, of_part, with);
  }
}

void BlendedDataset::read(int64_t k, const SampleSlots& out) const {
  if (k < 0 || k >= size()) fail("sample {} of the blend asked for, there are {}", k, size());
  const auto i = static_cast<size_t>(k);
  parts_[static_cast<size_t>(dataset_[i])].read(sample_[i], out);
}

}  // namespace partita::internal
