// Values of a tensor as the bytes of an element type, for exports.
//
//   ElementBytes bytes;
//   file.write(bytes.of("model.norm.weight", ElementType::bf16, values));
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

// Exports read and write a tensor in pieces of about so many elements: whole blocks of GGUF's q8_0, too.
inline constexpr int64_t kExportPiece = int64_t{1} << 20;

class ElementBytes {
 public:
  // Valid until the next call. Error: a finite value that would round to infinity; names `tensor`.
  [[nodiscard]] std::span<const std::byte> of(std::string_view tensor, ElementType type, std::span<const float> values);

 private:
  std::vector<std::byte> bytes_;  // kept for the next call
};

}  // namespace partita::internal
