// Formats that are not text, told by their first bytes: a file of one of them is named in place of a complaint about its
// first odd byte.
//
//   if (const auto found = foreign_format(head)) fail("{}: {}", name, describe(*found, name));
//   // "data.parquet: an Apache Parquet file, text expected: convert it, for example python3 -c ..."
//
// The first kForeignFormatBytes of a file are enough; of fewer it tells what it can.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace partita {

inline constexpr size_t kForeignFormatBytes = 512;

struct ForeignFormat {
  std::string_view name;    // "an Apache Parquet file"
  std::string_view remedy;  // a command or a sentence, FILE in the place of the file's name; empty: none
};

[[nodiscard]] std::optional<ForeignFormat> foreign_format(std::string_view head);

// "an Apache Parquet file, `expected` expected: remedy".
[[nodiscard]] std::string describe(const ForeignFormat& format, std::string_view file, std::string_view expected);

}  // namespace partita
