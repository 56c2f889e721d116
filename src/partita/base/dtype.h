// Element types of weights, gradients and files.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita {

enum class DType : uint8_t { fp32, bf16, fp16, int32, int64, uint8 };

[[nodiscard]] int64_t size_of(DType);               // bytes per element
[[nodiscard]] std::string_view name_of(DType);      // "fp32"
[[nodiscard]] DType parse_dtype(std::string_view);  // error: names the valid ones

}  // namespace partita
