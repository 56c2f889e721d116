#include "partita/interop/element_bytes.h"

#include "partita/base/error.h"
#include "partita/checkpoint/elements.h"

namespace partita::internal {

std::span<const std::byte> ElementBytes::of(std::string_view tensor, ElementType type, std::span<const float> values) {
  if (const auto at = find_overflow(type, values))
    fail("'{}' holds {}, which {} cannot represent: export with --dtype {}", tensor, values[*at],
         type == ElementType::f16 ? "fp16" : "bf16", type == ElementType::f16 ? "bf16 or fp32" : "fp32");
  bytes_.resize(values.size() * static_cast<size_t>(size_of(type)));
  from_fp32(type, values, bytes_.data());
  return bytes_;
}

}  // namespace partita::internal
