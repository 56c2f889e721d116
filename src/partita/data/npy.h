// Writes arrays for numpy.load (numpy's format 1.0), to inspect sample orders in other tools.
//
//   npy_file("document_index.npy", std::span<const int32_t>(order)).commit();        // 1-D
//   npy_file("sample_index.npy", std::span<const int64_t>(starts), 2).commit();      // two columns
//
// Sync all files that belong together before publishing the first (AtomicFile).
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <type_traits>

#include "partita/base/file.h"

namespace partita::internal {

// `type` is numpy's name, such as "<i4"; columns 0: 1-D.
[[nodiscard]] AtomicFile npy_file(const std::filesystem::path& path, std::string_view type,
                                  std::span<const std::byte> values, int64_t rows, int64_t columns);

template <class T>
requires std::is_integral_v<T>
[[nodiscard]] AtomicFile npy_file(const std::filesystem::path& path, std::span<const T> values, int64_t columns = 0) {
  constexpr char kType[] = {'<', std::is_signed_v<T> ? 'i' : 'u', static_cast<char>('0' + sizeof(T)), '\0'};
  const auto count = static_cast<int64_t>(values.size());
  return npy_file(path, kType, std::as_bytes(values), columns == 0 ? count : count / columns, columns);
}

}  // namespace partita::internal
