#include "partita/interop/gguf_elements.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr float kSteps = 127;
constexpr float kOverflowOfHalf = 65520;  // from here on fp16 rounds to infinity

ElementType element_type(GgufType type) {
  return type == GgufType::f16 ? ElementType::f16 : type == GgufType::bf16 ? ElementType::bf16 : ElementType::f32;
}

}  // namespace

void quantize_q8(std::string_view tensor, std::span<const float> values, std::byte* out) {
  PARTITA_CHECK(values.size() % kQ8BlockElements == 0, "{}: {} values as q8_0", tensor, values.size());
  for (; !values.empty(); values = values.subspan(kQ8BlockElements)) {
    float largest = 0;
    for (const float value : values.first(kQ8BlockElements)) {
      if (!std::isfinite(value))
        fail("'{}' holds {}, which q8_0 cannot represent: export with --dtype fp32", tensor, value);
      largest = std::max(largest, std::abs(value));
    }
    const float step = largest / kSteps, inverse = step == 0 ? 0 : 1 / step;
    if (step >= kOverflowOfHalf)
      fail("'{}' holds {}, which q8_0 cannot represent: export with --dtype bf16 or fp32", tensor, largest);
    const c10::Half factor = step;
    std::memcpy(out, &factor, sizeof factor);
    out += sizeof factor;
    for (const float value : values.first(kQ8BlockElements)) {
      // A step below the smallest normal number has an inverse of infinity: the block counts as zeros.
      const float rounded = std::isfinite(inverse) ? std::round(value * inverse) : 0;
      *out++ = static_cast<std::byte>(static_cast<int8_t>(rounded));
    }
  }
}

std::span<const std::byte> GgufElements::of(std::string_view tensor, GgufType type, std::span<const float> values) {
  if (type != GgufType::q8_0) return plain_.of(tensor, element_type(type), values);
  blocks_.resize(static_cast<size_t>(bytes_of(type, std::ssize(values))));
  quantize_q8(tensor, values, blocks_.data());
  return blocks_;
}

}  // namespace partita::internal
