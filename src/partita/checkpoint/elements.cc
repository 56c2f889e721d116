#include "partita/checkpoint/elements.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

template <class T>
void load(const std::byte* from, int64_t stride, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + static_cast<int64_t>(i) * stride * static_cast<int64_t>(sizeof(T)), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

template <class T>
void store(std::span<const float> values, std::byte* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

[[noreturn]] void refuse(ElementType type) { fail("{} elements are not weights", name_of(type)); }

// Calls visit(first, values) with groups of the elements in fp32, `first` being the index of the group's first element,
// until it returns false.
template <class Visit>
void for_each_group(DType from, std::span<const std::byte> in, const Visit& visit) {
  std::array<float, 2048> buffer{};
  const auto item = static_cast<size_t>(size_of(from));
  const size_t count = in.size() / item;
  for (size_t first = 0; first < count; first += buffer.size()) {
    const std::span<float> values = std::span(buffer).first(std::min(buffer.size(), count - first));
    to_fp32(element_type(from), in.data() + first * item, 1, values);
    if (!visit(first, values)) return;
  }
}

bool is_floating_dtype(DType type) { return is_floating(element_type(type)); }

}  // namespace

bool is_floating(ElementType type) {
  return type == ElementType::f64 || type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

void to_fp32(ElementType type, const std::byte* from, int64_t stride, std::span<float> out) {
  switch (type) {
    case ElementType::f32:
      if (stride != 1) return load<float>(from, stride, out);
      if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
      return;
    case ElementType::f64:
      return load<double>(from, stride, out);
    case ElementType::f16:
      return load<c10::Half>(from, stride, out);
    case ElementType::bf16:
      return load<c10::BFloat16>(from, stride, out);
    default:
      refuse(type);
  }
}

std::optional<size_t> find_overflow(ElementType type, std::span<const float> values) {
  if (!is_floating(type)) refuse(type);
  if (type != ElementType::f16 && type != ElementType::bf16) return std::nullopt;
  // Halfway between the type's largest number and the next one it would have: from here on values round to infinity.
  const float limit = type == ElementType::f16 ? 65520.0F : 0x1.FFp127F;
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i]) && std::abs(values[i]) >= limit) return i;
  return std::nullopt;
}

void from_fp32(ElementType type, std::span<const float> values, std::byte* out) {
  switch (type) {
    case ElementType::f32:
      return store<float>(values, out);
    case ElementType::f64:
      return store<double>(values, out);
    case ElementType::f16:
      return store<c10::Half>(values, out);
    case ElementType::bf16:
      return store<c10::BFloat16>(values, out);
    default:
      refuse(type);
  }
}

bool convertible(DType from, DType to) { return from == to || (is_floating_dtype(from) && is_floating_dtype(to)); }

bool rounds(DType from, DType to) { return from != to && to != DType::fp32; }

void convert_elements(DType from, std::span<const std::byte> in, DType to, std::byte* out) {
  if (from == to) {
    if (!in.empty()) std::memcpy(out, in.data(), in.size());
    return;
  }
  const auto item = static_cast<size_t>(size_of(to));
  for_each_group(from, in, [&](size_t first, std::span<const float> values) {
    from_fp32(element_type(to), values, out + first * item);
    return true;
  });
}

std::optional<size_t> find_overflow(DType from, std::span<const std::byte> in, DType to) {
  if (!rounds(from, to)) return std::nullopt;
  std::optional<size_t> found;
  for_each_group(from, in, [&](size_t first, std::span<const float> values) {
    if (const auto index = find_overflow(element_type(to), values)) found = first + *index;
    return !found;
  });
  return found;
}

}  // namespace partita::internal
