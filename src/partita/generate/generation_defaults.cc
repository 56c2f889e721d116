#include "partita/generate/generation_defaults.h"

#include <fmt/format.h>

#include "partita/base/error.h"

namespace partita::internal {

GenerationChoice choose_generation(const GenerationRequest& wish, const GenerationConfig& config) {
  GenerationChoice choice;
  const auto say = [&choice](const std::string& what) {
    choice.published += choice.published.empty() ? fmt::format("{}: {}", kGenerationFile, what) : ", " + what;
  };
  // The user's value, else the file's, else the current one.
  const auto choose = [&say](auto& value, const auto& wished, const auto& published, const char* name) {
    if (wished) {
      value = *wished;
    } else if (published) {
      const auto before = value;
      value = static_cast<std::remove_reference_t<decltype(value)>>(*published);
      if (value != before) say(fmt::format("{} {}", name, *published));
    }
  };
  choose(choice.tokens, wish.tokens, config.max_new_tokens, "max_new_tokens");
  if (wish.greedy) {
    choice.sampling.temperature = 0;
    return choice;
  }
  const bool draws_asked_for = wish.temperature || wish.top_k || wish.top_p;
  // As in transformers, a file without do_sample means greedy decoding.
  if (!config.do_sample.value_or(config.fields.empty())) {
    // Its other values are for a mode that is not used.
    if (!draws_asked_for) {
      choice.sampling.temperature = 0;
      say(config.do_sample ? "do_sample false (greedy)" : "no do_sample (greedy)");
    }
    choice.sampling.temperature = wish.temperature.value_or(choice.sampling.temperature);
    choice.sampling.top_k = wish.top_k.value_or(choice.sampling.top_k);
    choice.sampling.top_p = wish.top_p.value_or(choice.sampling.top_p);
    return choice;
  }
  choose(choice.sampling.temperature, wish.temperature, config.temperature, "temperature");
  choose(choice.sampling.top_k, wish.top_k, config.top_k, "top_k");
  choose(choice.sampling.top_p, wish.top_p, config.top_p, "top_p");
  if (!wish.top_p && choice.sampling.top_p == 0) {  // transformers then keeps one token: the most likely
    choice.sampling.top_p = 1;
    choice.sampling.temperature = 0;
  }
  return choice;
}

}  // namespace partita::internal
