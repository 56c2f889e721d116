// One sample of a source, as vectors.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/data/sample_source.h"

namespace partita::internal {

struct Sample {
  std::vector<int32_t> tokens, labels, positions, first_keys;
  bool operator==(const Sample&) const = default;
};

inline Sample read_sample(const SampleSource& source, int64_t k) {
  const auto length = static_cast<size_t>(source.sequence_length());
  constexpr int32_t kUntouched = -77;
  Sample s{.tokens = std::vector<int32_t>(length, kUntouched),
           .labels = std::vector<int32_t>(length, kUntouched),
           .positions = std::vector<int32_t>(length, kUntouched),
           .first_keys = {}};
  if (source.documents() == Documents::separate) s.first_keys.assign(length, kUntouched);
  source.read(k, {.tokens = s.tokens, .labels = s.labels, .positions = s.positions, .first_keys = s.first_keys});
  return s;
}

}  // namespace partita::internal
