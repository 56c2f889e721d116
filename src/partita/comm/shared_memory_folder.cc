#include "partita/comm/shared_memory_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

std::string prefix() { return fmt::format("partita.{}.", geteuid()); }

// The lock on a folder, or -1: it is held, or the folder is gone or belongs to another user.
int lock(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return -1;
  struct stat held {
  }, there{};
  // If the folder was removed in between, this lock is on a deleted one.
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && fstat(descriptor, &held) == 0 &&
      lstat(folder.c_str(), &there) == 0 && held.st_ino == there.st_ino && held.st_uid == geteuid())
    return descriptor;
  close(descriptor);
  return -1;
}

void remove_stale(const fs::path& where) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(where, error)) {
    if (!entry.path().filename().string().starts_with(prefix())) continue;
    const int descriptor = lock(entry.path());
    if (descriptor < 0) continue;
    fs::remove_all(entry.path(), error);
    close(descriptor);
  }
}

}  // namespace

SharedMemoryFolder::SharedMemoryFolder(const fs::path& where) {
  constexpr int kTries = 5;  // another start may take the folder for stale before it is locked
  remove_stale(where);
  for (int i = 0; i < kTries && descriptor_ < 0; ++i) {
    std::string name = where / (prefix() + "XXXXXX");
    if (mkdtemp(name.data()) == nullptr) return;
    descriptor_ = lock(name);
    if (descriptor_ >= 0) path_ = name;
  }
}

SharedMemoryFolder::~SharedMemoryFolder() {
  if (descriptor_ < 0) return;
  std::error_code error;
  fs::remove_all(path_, error);
  close(descriptor_);
}

}  // namespace partita::internal
