// User messages, and the only code that writes to the terminal.
//
//   log::configure(world.rank(), world.size());          // ranks other than 0 show only warnings and errors
//   log::info("resuming from {}", folder.string());      // stderr: "[12:34:56] resuming from runs/a/step-00000100"
//   log::print(line);                                     // stdout, the bare line, rank 0 only: for scripts
//   log::status("[####      ] 40% ...");                  // last line of the terminal, kept below all messages
//
// PARTITA_LOG=debug|info|warn|error|off sets the stderr level (default: info). Thread-safe. See printable.h for names.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace partita::log {

enum class Level : uint8_t { debug, info, warn, error, off };

[[nodiscard]] std::optional<Level> parse_level(std::string_view name);

// Sets this process's rank: rank 0 shows messages at its level, other ranks only warnings and errors, marked "[rank
// 3]".
void configure(int rank, int ranks);
void set_level(Level level);
[[nodiscard]] bool enabled(Level level);

void write(Level level, std::string_view message);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

// Prints one or more lines to stdout, flushed, on rank 0 only and at every level.
void print(std::string_view text);
// errno of the first failed print (a full disk, a closed reader); 0: none failed. The first failure also logs a
// warning.
[[nodiscard]] int print_error();

// Keeps `line` as the last line of the terminal, below all messages. Empty: removes it. No-op if stderr is not a
// terminal.
void status(std::string_view line);

// Columns of stderr's terminal; 0: not a terminal. mpirun hides the terminal from its ranks behind a pipe, so `partita
// launch` passes its width in PARTITA_TERMINAL_WIDTH.
[[nodiscard]] int terminal_width();

}  // namespace partita::log
