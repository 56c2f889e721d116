// Elements as files hold them, to fp32 and back.
//
//   to_fp32(tensor.type, bytes, 1, out);               // out[i] = element i
//   from_fp32(ElementType::bf16, values, bytes);       // rounded to nearest, ties to even
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

// f64, f32, f16, bf16: what weights are stored as.
[[nodiscard]] bool is_floating(ElementType);

// out[i] = the element at index i * stride from `from` on, which need not be aligned. Exact but for f64, which is
// rounded. Error: not floating.
void to_fp32(ElementType, const std::byte* from, int64_t stride, std::span<float> out);

// The first of the values that is finite and would be rounded to infinity; none: all fit. Error: not floating.
[[nodiscard]] std::optional<size_t> find_overflow(ElementType, std::span<const float> values);

// `out` takes size_of(type) bytes for each value. Error: not floating.
void from_fp32(ElementType, std::span<const float> values, std::byte* out);

}  // namespace partita::internal
