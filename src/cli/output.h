// Standard output of single-process commands; commands with several ranks use log::print, on rank 0 only.
//
//   put_line("{}: {} documents", printable_line(path), documents);   // our own line
//   put(text);                                                 // foreign text: a document, generated text
//
// Output that cannot be written (a full disk) is an Error right away: no command continues for hours without its
// output, and none ends with exit code 0.
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace partita::cli {
// Writes and flushes. On a terminal, control characters are escaped (base/printable.h); files and pipes get the text
// verbatim.
void put(std::string_view text);

template <class... Args>
void put_line(fmt::format_string<Args...> format, Args&&... args) {
  put(fmt::format(format, std::forward<Args>(args)...) + "\n");
}

// errno of earlier output that was lost, written in any way; 0: none was lost.
[[nodiscard]] int lost_output();

[[noreturn]] void fail_output(int error);

}  // namespace partita::cli
