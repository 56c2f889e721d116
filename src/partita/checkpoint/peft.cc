#include "partita/checkpoint/peft.h"

#include "partita/models/peft_names.h"

namespace partita {

HfNaming peft_naming(const ModelConfig& model, const LoraConfig& lora) {
  return {.parameters = peft_parameters(model, lora),
          .optional_prefix = {},
          .is_ignorable = [](std::string_view) { return false; },
          .copy = {},
          .original = {}};
}

}  // namespace partita
