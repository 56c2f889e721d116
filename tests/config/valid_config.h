// A configuration that is valid, for tests to change.
#pragma once
#include "partita/config/config.h"

namespace partita::internal::test {

inline Config valid_config() {
  Config config;
  config.model = {.layers = 2, .hidden_size = 48, .heads = 3, .vocab_size = 61, .max_length = 64};
  config.data.path = "data/text";
  config.data.tokenizer = "tokenizer.json";
  config.train.steps = 100;
  config.train.sequence_length = 64;
  config.train.micro_batch = 2;
  config.train.global_batch = 24;
  return config;
}

}  // namespace partita::internal::test
