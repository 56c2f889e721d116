// What other training systems call the keys of a configuration, for the message about an unknown key.
//
//   schema.also_called(config_aliases());
//   // a.toml:3: unknown key 'optimizer.lr': did you mean 'optimizer.learning_rate'?
#pragma once
#include <span>

#include "partita/config/schema.h"

namespace partita::internal {

// Names of Hugging Face's Trainer and model configurations, Megatron-LM, DeepSpeed, nanoGPT, Lightning, PEFT.
[[nodiscard]] std::span<const ConfigAlias> config_aliases();

}  // namespace partita::internal
