// Thrown to end the program with a code when everything has been said already.
#pragma once

struct ExitCode {
  int value;
};
