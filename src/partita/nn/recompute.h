// What backward recomputes instead of reading it from memory, and so what forward saves.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "partita/base/enum_names.h"

namespace partita {

// selective: norms and activation functions, which are cheap; mlp: also the first matmul of the MLP; full: everything
// but each block's input. Each mode recomputes what the ones before it do.
enum class Recompute : uint8_t { none, selective, mlp, full };
template <>
struct EnumNames<Recompute> {
  static constexpr std::array kNames = {"none", "selective", "mlp", "full"};
};

// The mode of a block. Empty: it saves nothing, because it has no backward.
using BlockRecompute = std::optional<Recompute>;

}  // namespace partita
