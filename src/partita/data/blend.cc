#include "partita/data/blend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/number.h"

namespace partita::internal {
namespace {

constexpr double kSurplus = 0.005;  // Megatron's mid_level_dataset_surplus

// numpy's sum of a contiguous array of doubles: eight partial sums, and long arrays are halved recursively
// (numpy/_core/src/umath/loops_utils.h.src, pairwise_sum).
double pairwise_sum(std::span<const double> v) {
  if (v.size() < 8) {
    double sum = 0;
    for (const double x : v) sum += x;
    return sum;
  }
  if (v.size() > 128) {
    size_t half = v.size() / 2;
    half -= half % 8;
    return pairwise_sum(v.first(half)) + pairwise_sum(v.subspan(half));
  }
  double r[8];
  for (size_t i = 0; i < 8; ++i) r[i] = v[i];
  size_t at = 8;
  for (; at < v.size() - v.size() % 8; at += 8) {
    for (size_t i = 0; i < 8; ++i) r[i] += v[at + i];
  }
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; at < v.size(); ++at) sum += v[at];
  return sum;
}

int64_t share_of(double weight, int64_t samples) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(samples) * weight));
}

}  // namespace

std::vector<BlendPart> parse_blend(std::span<const std::string> items) {
  constexpr const char* kExpected =
      "weights and prefixes of token files in turn expected, such as 0.7 data/a 0.3 data/b";
  std::vector<BlendPart> parts;
  for (size_t i = 0; i < items.size(); ++i) {
    BlendPart part{parse_number<double>(items[i]), items[i]};
    if (part.weight) {
      if (!(*part.weight > 0) || !std::isfinite(*part.weight)) fail("blend: weight {}, more than 0 expected", items[i]);
      if (++i == items.size()) fail("blend: no prefix follows the weight {}: {}", items[i - 1], kExpected);
      if (parse_number<double>(items[i]))
        fail("blend: weight {} is followed by the number {}: {}", items[i - 1], items[i], kExpected);
      part.prefix = items[i];
    }
    if (part.prefix.empty()) fail("blend: an empty prefix: {}", kExpected);
    if (!parts.empty() && parts[0].weight.has_value() != part.weight.has_value()) {
      fail("blend: \"{}\" {} a weight, \"{}\" {}: give all parts weights, or none", parts[0].prefix.string(),
           parts[0].weight ? "has" : "has not", part.prefix.string(), part.weight ? "has" : "has not");
    }
    const auto same = [&](const BlendPart& other) { return other.prefix == part.prefix; };
    if (std::ranges::any_of(parts, same))
      fail("blend: \"{}\" is given twice: add its weights up", part.prefix.string());
    parts.push_back(std::move(part));
  }
  if (parts.size() > static_cast<size_t>(std::numeric_limits<int16_t>::max()))
    fail("blend: {} parts, at most {} expected", parts.size(), std::numeric_limits<int16_t>::max());
  return parts;
}

std::vector<double> normalized_weights(std::span<const double> weights) {
  const double sum = pairwise_sum(weights);
  std::vector<double> normalized;
  for (const double weight : weights) normalized.push_back(weight / sum);
  return normalized;
}

int64_t blend_size(std::span<const double> weights, int64_t samples) {
  int64_t size = 0;
  for (const double weight : weights) size += share_of(weight, samples);
  return size;
}

int64_t part_samples(double weight, int64_t samples) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(share_of(weight, samples)) * (1 + kSurplus)));
}

BlendIndex build_blend_index(std::span<const double> weights, int64_t size) {
  PARTITA_CHECK(!weights.empty(), "a blend of nothing");
  const std::vector<double> shares = normalized_weights(weights);
  BlendIndex index;
  index.dataset.reserve(static_cast<size_t>(size));
  index.sample.reserve(static_cast<size_t>(size));
  std::vector<int64_t> taken(shares.size());
  for (int64_t k = 0; k < size; ++k) {
    const double before = std::max(static_cast<double>(k), 1.0);
    size_t furthest = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t d = 0; d < shares.size(); ++d) {
      const double behind = shares[d] * before - static_cast<double>(taken[d]);
      if (behind > most) {
        most = behind;
        furthest = d;
      }
    }
    index.dataset.push_back(static_cast<int16_t>(furthest));
    index.sample.push_back(taken[furthest]++);
  }
  return index;
}

}  // namespace partita::internal
