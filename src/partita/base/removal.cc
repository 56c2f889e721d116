#include "partita/base/removal.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

struct Removals {
  std::mutex mutex;
  std::set<fs::path> paths, folders;  // folders: removed if empty
};

Removals& removals() {
  static auto* instance = new Removals;  // the waiting thread outlives static objects
  return *instance;
}

[[noreturn]] void wait_for(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  {
    Removals& all = removals();
    const std::lock_guard lock(all.mutex);
    std::error_code ignored;
    // Retried since another thread may be adding files to a folder.
    for (int attempt = 0; attempt < 3; ++attempt)
      for (const fs::path& path : all.paths) fs::remove_all(path, ignored);
    // In reverse order, subfolders before their parents.
    for (auto folder = all.folders.rbegin(); folder != all.folders.rend(); ++folder) ::rmdir(folder->c_str());
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    std::raise(signal);
  }
  std::_Exit(128 + signal);
}

}  // namespace

void add_removal(const fs::path& path) {
  Removals& all = removals();
  const std::lock_guard lock(all.mutex);
  all.paths.insert(fs::absolute(path));
}

void create_removable(const fs::path& path, const std::function<bool()>& create) {
  Removals& all = removals();
  const std::lock_guard lock(all.mutex);
  if (create()) all.paths.insert(fs::absolute(path));
}

void drop_removal(const fs::path& path) {
  Removals& all = removals();
  const std::lock_guard lock(all.mutex);
  all.paths.erase(fs::absolute(path));
  all.folders.erase(fs::absolute(path));
}

void add_removal_if_empty(const fs::path& folder) {
  Removals& all = removals();
  const std::lock_guard lock(all.mutex);
  all.folders.insert(fs::absolute(folder));
}

void remove_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present {};
    // Signals ignored at startup (nohup) stay ignored.
    if (sigaction(signal, nullptr, &present) == 0 && present.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] { wait_for(signals); }).detach();
}

}  // namespace partita::internal
