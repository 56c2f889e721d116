// Conversion between stored elements and fp32.
//
//   to_fp32(tensor.type, bytes, 1, out);               // out[i] = element i
//   from_fp32(ElementType::bf16, values, bytes);       // rounded to nearest, ties to even
//   convert_elements(DType::fp32, stored, DType::bf16, bytes);
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

// Whether tensors of one type can be loaded as another: equal types, or two of fp32, bf16 and fp16.
[[nodiscard]] bool convertible(DType from, DType to);
// Whether that can change values: not from a type to itself, nor from bf16 or fp16 to fp32.
[[nodiscard]] bool rounds(DType from, DType to);

// Writes the elements in `in` as elements of `to`: rounded to nearest, ties to even; of equal types with the same bits.
// Neither side need be aligned. `out` receives size_of(to) bytes per element. Error: not convertible.
void convert_elements(DType from, std::span<const std::byte> in, DType to, std::byte* out);

// Index of the first finite element in `in` that would become infinite; empty: none.
[[nodiscard]] std::optional<size_t> find_overflow(DType from, std::span<const std::byte> in, DType to);

}  // namespace partita::internal
