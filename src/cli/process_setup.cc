#include "cli/process_setup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "partita/base/removal.h"

namespace partita::cli {
using namespace internal;

void prepare_process() {
  // open() returns the lowest free number: the missing descriptor.
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", O_RDWR) < 0) ::_exit(1);
  std::signal(SIGXFSZ, SIG_IGN);
}

void remove_files_on_signals(int argc, char** argv) {
  // Other commands write no files, start programs, or handle signals themselves.
  constexpr std::array<std::string_view, 5> kWriters = {"tokenize", "tokenizer", "dataset", "import", "export"};
  if (argc > 1 && std::ranges::find(kWriters, argv[1]) != kWriters.end()) remove_on_signals();
}

namespace {
bool outlives = false;
}  // namespace

void outlive_readers() {
  outlives = true;
  std::signal(SIGPIPE, SIG_IGN);
}

bool outlives_readers() { return outlives; }

}  // namespace partita::cli
