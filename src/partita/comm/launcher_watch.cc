#include "partita/comm/launcher_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "partita/comm/ancestors.h"

namespace partita::internal {

void end_with_launcher(int rank) {
  const pid_t parent = getppid();
  const std::vector<std::string> ancestors = process_ancestors();
  if (ancestors.empty() || !(is_open_mpi_launcher(ancestors.front()) || ancestors.front() == "torchrun")) return;
  const auto watched = static_cast<int>(syscall(SYS_pidfd_open, parent, 0));
  if (watched < 0) return;  // Linux before 5.3, or a sandbox: only the launcher can end its ranks
  std::thread([rank, watched, parent, launcher = ancestors.front()] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);  // the program's own threads handle signals; ignores SIGPIPE below
    if (getppid() == parent) {
      pollfd entry{watched, POLLIN, 0};
      while (poll(&entry, 1, -1) < 0 && errno == EINTR) {
      }
    }
    const std::string text = fmt::format("rank {} ends: {}, which started it, is gone\n", rank, launcher);
    (void)!write(STDERR_FILENO, text.data(), text.size());
    _exit(1);
  }).detach();
}

}  // namespace partita::internal
