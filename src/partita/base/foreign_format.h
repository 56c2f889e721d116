// Formats that are not text, told by their first bytes: a file of one of them is named in place of a complaint about
// its first odd byte.
//
//   if (const auto found = foreign_format(head)) fail("{}", describe(*found, name, "text"));
//   // "a.bz2 is compressed by bzip2; expected text. Use: bzcat a.bz2 | partita ... --input -"
//
// The first kForeignFormatBytes of a file are enough; of fewer it tells what it can.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

inline constexpr size_t kForeignFormatBytes = 512;

struct ForeignFormat {
  std::string_view name;    // "an Apache Parquet file"
  std::string_view remedy;  // a sentence, FILE in the place of the file's name in a command; empty: none
};

[[nodiscard]] std::optional<ForeignFormat> foreign_format(std::string_view head);

// Error if `head` is the beginning of a Git LFS pointer: for files of bytes, which may begin as any other format does.
// `name` is that of the file, `expected` what it should be.
void refuse_lfs_pointer(std::string_view head, std::string_view name, std::string_view expected);

// "NAME is an Apache Parquet file; expected EXPECTED. REMEDY", the name quoted for a shell in the remedy's command.
[[nodiscard]] std::string describe(const ForeignFormat& format, std::string_view name, std::string_view expected);
// The same of content without a file's name: `word` stands in the command.
[[nodiscard]] std::string describe(const ForeignFormat& format, std::string_view name, std::string_view expected,
                                   std::string_view word);

// The name of a file as a shell and a command take it: "a.txt", "'a b.txt'", "./-x".
[[nodiscard]] std::string shell_word(std::string_view file);

}  // namespace partita::internal
