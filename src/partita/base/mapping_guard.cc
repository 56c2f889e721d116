#include "partita/base/mapping_guard.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "partita/base/printable.h"

namespace partita::internal {
namespace {

// A list that a signal handler walks while other threads change it: entries are never freed, only reused.
struct Entry {
  std::atomic<uintptr_t> begin{0};  // 0: not in use
  std::atomic<size_t> bytes{0};
  std::atomic<const char*> name{nullptr};
  std::string storage;
  Entry* next = nullptr;
};

std::atomic<Entry*> first_entry{nullptr};
std::mutex changing;

void write_text(const char* text) {
  // Write errors cannot be handled here.
  static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
}

void end_with_name(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Entry* e = first_entry.load(); e != nullptr; e = e->next) {
    const uintptr_t begin = e->begin.load();
    if (begin == 0 || address < begin || address - begin >= e->bytes.load()) continue;
    write_text("\npartita: ");
    write_text(e->name.load());
    write_text(
        " became shorter, or its disk failed, while it was read: restore the whole file, leave it unchanged while it "
        "is used, and start again\n");
    ::_exit(1);
  }
  // Not in a registered mapping: behave as without a handler.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void enter_mapping(const void* begin, size_t bytes, const std::string& name) {
  const std::lock_guard lock(changing);
  Entry* entry = first_entry.load();
  while (entry != nullptr && entry->begin.load() != 0) entry = entry->next;
  const bool is_new = entry == nullptr;
  if (is_new) entry = new Entry;          // never freed: the handler may be reading it
  entry->storage = printable_line(name);  // formatted now, since a signal handler cannot
  entry->name = entry->storage.c_str();
  entry->bytes = bytes;
  entry->begin = reinterpret_cast<uintptr_t>(begin);  // last: makes the entry visible
  if (!is_new) return;
  entry->next = first_entry.load();
  first_entry = entry;
}

void leave_mapping(const void* begin) {
  const std::lock_guard lock(changing);
  for (Entry* e = first_entry.load(); e != nullptr; e = e->next) {
    if (e->begin.load() != reinterpret_cast<uintptr_t>(begin)) continue;
    e->begin = 0;
    return;
  }
}

void install_mapping_guard() {
  struct sigaction now {};
  if (::sigaction(SIGBUS, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return;
  struct sigaction guard {};
  guard.sa_sigaction = end_with_name;
  guard.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &guard, nullptr);
}

}  // namespace partita::internal
