// Messages to the user, and the one place that writes to the terminal.
//
//   log::configure(world.rank(), world.size());          // others than rank 0 show warnings and errors only
//   log::info("resuming from {}", folder.string());      // stderr: "[12:34:56] resuming from runs/a/step-00000100"
//   log::print(line);                                     // stdout, the line alone, rank 0 only: for scripts
//   log::status("[####      ] 40% ...");                  // a last line on the terminal that messages do not tear
//
// PARTITA_LOG=debug|info|warn|error|off sets what stderr shows (info). Any thread. See printable.h for names.
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

// Which rank this process is: rank 0 shows what its level allows, the others warnings and errors, marked "[rank 3]".
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

// A line (or several) on stdout, flushed, from rank 0 only and at every level.
void print(std::string_view text);
// Why something that was printed did not arrive (errno: a full disk, a reader that has gone); 0: all did. The first
// such loss is also a warning.
[[nodiscard]] int print_error();

// Keeps `line` as the last line of the terminal: messages appear above it. Empty: no more. Does nothing where stderr is
// no terminal.
void status(std::string_view line);

// Columns of the terminal behind stderr; 0: it is none. mpirun hides the terminal from its ranks behind a pipe:
// `partita launch` tells them of it by PARTITA_TERMINAL_WIDTH.
[[nodiscard]] int terminal_width();

}  // namespace partita::log
