#include "partita/pipeline/action.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <string_view>

namespace partita::internal {

std::string action_name(const PipelineAction& action) {
  constexpr std::array kNames = {"forward pass",
                                 "backward pass",
                                 "input gradient",
                                 "weight gradient",
                                 "send of the output",
                                 "receive of the input",
                                 "send of the input gradient",
                                 "receive of the output gradient"};
  return fmt::format("the {} of chunk {}, micro-batch {}", kNames[static_cast<size_t>(action.kind)], action.chunk,
                     action.micro_batch);
}

std::string action_label(const PipelineAction& action, int chunks) {
  constexpr std::string_view kLetters = "FBIW";
  char letter = kLetters[static_cast<size_t>(action.kind)];
  if (chunks == 2 && action.chunk == 1) letter = static_cast<char>(std::tolower(letter));
  return fmt::format("{}{}{}", chunks > 2 ? std::to_string(action.chunk) : "", letter, action.micro_batch);
}

}  // namespace partita::internal
