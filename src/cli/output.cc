#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/printable.h"

namespace partita::cli {
using namespace internal;

void put(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) != 0;
  const std::string shown = terminal ? printable(text) : std::string(text);
  errno = 0;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0) return;
  const int error = errno;
  std::clearerr(stdout);  // it is being reported
  fail_output(error);
}

int lost_output() {
  if (const int error = log::print_error(); error != 0) return error;
  errno = 0;
  if (std::fflush(stdout) != 0) return errno != 0 ? errno : EIO;
  return std::ferror(stdout) != 0 ? EIO : 0;
}

void fail_output(int error) {
  fail("cannot write to standard output: {}: make room or give it another place", std::strerror(error));
}

}  // namespace partita::cli
