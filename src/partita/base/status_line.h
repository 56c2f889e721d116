// How a rank of `partita launch` hands its status line (log.h) to the launcher, which draws it: messages of several
// ranks would tear what one of them draws.
//
//   PARTITA_STATUS_LINES   set: log::status(text) writes kStatusMark, the text and a newline to stderr
//   PARTITA_ONE_TERMINAL   set: stdout and stderr are one terminal, so that log::print() writes to stderr too, in order
#pragma once
#include <string_view>

namespace partita::log {

inline constexpr std::string_view kStatusMark = "[partita] status: ";

}  // namespace partita::log
