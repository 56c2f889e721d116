// Thrown to end the program with an exit code after all messages have been printed.
#pragma once

namespace partita::cli {
struct ExitCode {
  int value;
};

// Exit code of an interrupted run that the same command can continue: sysexits.h's EX_TEMPFAIL.
inline constexpr int kInterrupted = 75;

}  // namespace partita::cli
