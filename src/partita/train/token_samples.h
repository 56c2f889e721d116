// The samples of token files that a configuration names: of one dataset, or of several blended.
//
//   const TokenSamples train = open_token_samples(config, SplitName::train, {steps * global_batch});
//   train.source->read(k, slots);
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "partita/config/config.h"
#include "partita/data/sample_source.h"
#include "partita/data/split.h"

namespace partita::internal {

// Whether documents within a sample see each other: those of token files, and those packed from prompts.
[[nodiscard]] Documents documents_of(const DataConfig&);

struct TokenSamples {
  std::unique_ptr<SampleSource> source;
  int64_t samples_per_epoch = 0;  // of all parts together
  std::string
      parts;  // "1000", tokens; of a blend "0.7 of a with 1000 tokens, 0.3 of ...": what stays for the samples to stay
};

// planned: samples of the whole, at each time it was planned; the order that the first ones made stays as it is.
// Validation comes from data.validation if that is set. Rank 0 says where orders cannot be kept.
// Error: missing or damaged files, too few tokens; check_token_file.
[[nodiscard]] TokenSamples open_token_samples(const Config& config, SplitName split, std::span<const int64_t> planned,
                                              int rank = 0, int ranks = 1);

}  // namespace partita::internal
