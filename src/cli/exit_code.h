// Thrown to end the program with a code when everything has been said already.
#pragma once

namespace partita::cli {
struct ExitCode {
  int value;
};

// A run that was interrupted and can be continued by the same command: sysexits.h's EX_TEMPFAIL.
inline constexpr int kInterrupted = 75;

}  // namespace partita::cli
