// How a rank of `partita launch` passes its status line (log.h) to the launcher, which draws it, since messages of
// other ranks would interleave with a line drawn by the rank itself.
//
//   PARTITA_STATUS_LINES   set: log::status(text) writes kStatusMark, the text and a newline to stderr
//   PARTITA_TERMINAL_WIDTH columns available to a rank at startup
//   PARTITA_TERMINAL       the terminal's path, if the rank can open it, to follow size changes
//   PARTITA_ONE_TERMINAL   set: stdout and stderr share a terminal, so log::print() writes to stderr, to preserve order
#pragma once
#include <string_view>

namespace partita::log {

// Columns that the launcher leaves free for the ^C that a terminal echoes.
inline constexpr int kFreeColumns = 2;

inline constexpr std::string_view kStatusMark = "[partita] status: ";

}  // namespace partita::log
