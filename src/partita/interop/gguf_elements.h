// Values of a tensor as the bytes of a GGUF element type.
//
//   GgufElements elements;
//   file.write(elements.of("output.weight", GgufType::q8_0, values));
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "partita/interop/element_bytes.h"
#include "partita/interop/gguf_format.h"

namespace partita::internal {

// Rounds each block of 32 values to steps of its largest magnitude / 127: bytes [-127, 127] to nearest, halves away
// from zero, as ggml's reference does. `out`: bytes_of(q8_0, values.size()). Error: a value that is not finite, or too
// large for the factor, which is fp16; names `tensor`.
void quantize_q8(std::string_view tensor, std::span<const float> values, std::byte* out);

class GgufElements {
 public:
  // Valid until the next call. Error: a value that the type cannot represent; names `tensor`.
  [[nodiscard]] std::span<const std::byte> of(std::string_view tensor, GgufType type, std::span<const float> values);

 private:
  ElementBytes plain_;
  std::vector<std::byte> blocks_;
};

}  // namespace partita::internal
