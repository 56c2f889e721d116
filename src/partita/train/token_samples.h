// The samples that a configuration draws from token files: one dataset, or a blend of several.
//
//   const TokenSamples train = open_token_samples(config, SplitName::train, std::vector{steps * global_batch});
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

// Whether documents within a sample are isolated from each other; applies to token files and packed prompts.
[[nodiscard]] Documents documents_of(const DataConfig&);

struct TokenSamples {
  std::unique_ptr<SampleSource> source;
  int64_t samples_per_epoch = 0;  // of all parts together
  std::string parts;  // "1000" tokens, or "0.7 of a with 1000 tokens, 0.3 of ..." for a blend: the samples depend on it
};

// planned: total samples of the run, one entry each time it was planned; the order given by earlier entries is
// preserved. Validation samples come from data.validation if set. Rank 0 warns if the order cannot be cached. Error:
// missing or damaged files, too few tokens; check_token_file.
[[nodiscard]] TokenSamples open_token_samples(const Config& config, SplitName split, std::span<const int64_t> planned,
                                              int rank = 0, int ranks = 1);

}  // namespace partita::internal
