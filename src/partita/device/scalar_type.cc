#include "partita/device/scalar_type.h"

#include "partita/base/error.h"

namespace partita::internal {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return at::kFloat;
    case DType::bf16:
      return at::kBFloat16;
    case DType::fp16:
      return at::kHalf;
    case DType::int32:
      return at::kInt;
    case DType::int64:
      return at::kLong;
    case DType::uint8:
      return at::kByte;
  }
  fail("unknown dtype number {}", static_cast<int>(dtype));
}

std::optional<DType> find_dtype(at::ScalarType type) {
  for (DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::int32, DType::int64, DType::uint8})
    if (scalar_type(dtype) == type) return dtype;
  return std::nullopt;
}

DType dtype_of(const at::Tensor& tensor) {
  if (const std::optional<DType> dtype = find_dtype(tensor.scalar_type())) return *dtype;
  fail("a tensor of type {}: expected fp32, bf16, fp16, int32, int64 or uint8", c10::toString(tensor.scalar_type()));
}

}  // namespace partita::internal
