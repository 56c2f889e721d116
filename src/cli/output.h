// What commands of one process write to standard output; those of several ranks print by log::print, on rank 0 alone.
//
//   put_line("{}: {} documents", printable_line(path), documents);   // a line of ours
//   put(text);                                                 // text of others: a document, what a model writes
//
// What does not arrive (a full disk) is an Error where it happens: no command goes on for hours without its output, and
// none ends with exit code 0.
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace partita::cli {
// Flushed. On a terminal control characters are spelled out (base/printable.h); a file or pipe gets the text as it is.
void put(std::string_view text);

template <class... Args>
void put_line(fmt::format_string<Args...> format, Args&&... args) {
  put(fmt::format(format, std::forward<Args>(args)...) + "\n");
}

// Why something that was written before has not arrived, by whatever way (errno); 0: all of it did.
[[nodiscard]] int lost_output();

[[noreturn]] void fail_output(int error);

}  // namespace partita::cli
