// Names that other training systems use for our configuration keys, for the error about an unknown key.
//
//   schema.also_called(config_aliases());
//   // a.toml:3: unknown key 'optimizer.lr': did you mean 'optimizer.learning_rate'?
#pragma once
#include <span>

#include "partita/config/schema.h"

namespace partita::internal {

// Covers Hugging Face Trainer and model configs, Megatron-LM, DeepSpeed, nanoGPT, Lightning and PEFT.
[[nodiscard]] std::span<const ConfigAlias> config_aliases();

}  // namespace partita::internal
