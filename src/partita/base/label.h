// Conventions for labels, the tokens that a model has to predict, shared by all layers.
#pragma once
#include <cstdint>

namespace partita {

// Excludes a position from loss, gradient and token count: padding, or a prompt.
inline constexpr int32_t kIgnoredLabel = -1;

}  // namespace partita
