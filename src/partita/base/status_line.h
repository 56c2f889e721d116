// How a rank of `partita launch` hands its status line (log.h) to the launcher, which draws it: messages of several
// ranks would tear what one of them draws.
//
//   PARTITA_STATUS_LINES   set: log::status(text) writes kStatusMark, the text and a newline to stderr
//   PARTITA_TERMINAL_WIDTH the columns that a rank may use when it starts
//   PARTITA_TERMINAL       the terminal's path where the rank can open it, so that a changed size is followed
//   PARTITA_ONE_TERMINAL   set: stdout and stderr are one terminal, so that log::print() writes to stderr too, in order
#pragma once
#include <string_view>

namespace partita::log {

// Columns of the terminal that the launcher leaves free: room for the ^C that a terminal shows by itself.
inline constexpr int kFreeColumns = 2;

inline constexpr std::string_view kStatusMark = "[partita] status: ";

}  // namespace partita::log
