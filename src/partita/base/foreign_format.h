// Recognizes binary formats by their first bytes, so that the error names the format instead of complaining about the
// first odd byte.
//
//   if (const auto found = foreign_format(head)) fail("{}", describe(*found, name, "text"));
//   // "a.bz2 is compressed by bzip2; expected text. Use: bzcat a.bz2 | partita ... --input -"
//
// Pass the first kForeignFormatBytes of a file; with fewer, some formats are not recognized.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

inline constexpr size_t kForeignFormatBytes = 512;

struct ForeignFormat {
  std::string_view name;    // "an Apache Parquet file"
  std::string_view remedy;  // a sentence, with FILE for the file name in a command; empty: none
};

[[nodiscard]] std::optional<ForeignFormat> foreign_format(std::string_view head);

// Error if `head` is the start of a Git LFS pointer: for binary files whose format cannot be checked otherwise. `name`:
// the file; `expected`: what it should be.
void refuse_lfs_pointer(std::string_view head, std::string_view name, std::string_view expected);

// "NAME is an Apache Parquet file; expected EXPECTED. REMEDY", with the name shell-quoted in the remedy's command.
[[nodiscard]] std::string describe(const ForeignFormat& format, std::string_view name, std::string_view expected);
// The same for content without a file name: the command contains `word`.
[[nodiscard]] std::string describe(const ForeignFormat& format, std::string_view name, std::string_view expected,
                                   std::string_view word);

// A file name quoted for a shell command: "a.txt", "'a b.txt'", "./-x".
[[nodiscard]] std::string shell_word(std::string_view file);

}  // namespace partita::internal
