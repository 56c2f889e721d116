#include "partita/data/shuffled_samples.h"

#include <numeric>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/random.h"

namespace partita {
using namespace internal;

ShuffledSamples::ShuffledSamples(const Options& options) : options_(options), at_(options.first) {
  if (options.samples < 1) fail("ShuffledSamples: {} samples, expected at least 1", options.samples);
  if (options.rank < 0 || options.rank >= options.ranks)
    fail("ShuffledSamples: rank {} of {}, expected 0 to {}", options.rank, options.ranks, options.ranks - 1);
  if (options.first < 0) fail("ShuffledSamples: first is {}, expected at least 0", options.first);
}

std::optional<std::vector<size_t>> ShuffledSamples::next(size_t batch) {
  const auto count = static_cast<int64_t>(batch);
  std::vector<size_t> indices;
  indices.reserve(batch);
  for (int64_t i = 0; i < count; ++i) indices.push_back(index_of(at_ + options_.rank * count + i));
  at_ += options_.ranks * count;
  return indices;
}

size_t ShuffledSamples::index_of(int64_t number) {
  const int64_t epoch = number / options_.samples;
  if (epoch != std::exchange(epoch_, epoch)) {
    order_.resize(static_cast<size_t>(options_.samples));
    std::iota(order_.begin(), order_.end(), 0);
    // Fisher and Yates: each place gets one of those before it. The remainder's bias is below samples / 2^64.
    const uint64_t key = mix(mix(options_.seed) ^ static_cast<uint64_t>(epoch));
    for (size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[mix(key ^ mix(i)) % (i + 1)]);
  }
  return static_cast<size_t>(order_[static_cast<size_t>(number % options_.samples)]);
}

}  // namespace partita
