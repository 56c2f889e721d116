// What all layers agree on about labels, the tokens that a model is to predict.
#pragma once
#include <cstdint>

namespace partita::internal {

// A position with this label counts for nothing, in loss, gradient and number of tokens: padding, or a prompt.
inline constexpr int32_t kIgnoredLabel = -1;

}  // namespace partita::internal
