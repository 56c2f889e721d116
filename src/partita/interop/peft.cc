#include "partita/interop/peft.h"

#include "partita/interop/peft_names.h"

namespace partita::internal {

HfNaming peft_naming(const ModelConfig& model, const LoraConfig& lora) {
  return {.parameters = peft_parameters(model, lora),
          .optional_prefix = {},
          .is_ignorable = [](std::string_view) { return false; },
          .copy = {},
          .original = {},
          .advice =
              "these adapters were trained on a base of another shape (--base names the right one), or whole modules "
              "were trained with them (a vocabulary that was resized): merge those with PEFT (merge_and_unload) and "
              "use the merged model"};
}

}  // namespace partita::internal
