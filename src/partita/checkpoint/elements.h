// Conversion between stored elements and fp32.
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

// f64, f32, f16, bf16: the types that weights are stored in.
[[nodiscard]] bool is_floating(ElementType);

// out[i] = the element at index i * stride from `from`, which need not be aligned. Exact except for f64, which is
// rounded. Error: not a floating-point type.
void to_fp32(ElementType, const std::byte* from, int64_t stride, std::span<float> out);

// Index of the first finite value that would round to infinity; empty: all fit. Error: not a floating-point type.
[[nodiscard]] std::optional<size_t> find_overflow(ElementType, std::span<const float> values);

// `out` receives size_of(type) bytes per value. Error: not a floating-point type.
void from_fp32(ElementType, std::span<const float> values, std::byte* out);

}  // namespace partita::internal
