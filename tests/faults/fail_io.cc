// A preloaded library that makes one file operation of a process fail, the N-th below a folder. Simulates a full disk,
// a failing disk or a lack of file descriptors at every possible point.
//
//   LD_PRELOAD=libfail_io.so FAIL_UNDER=/tmp/run FAIL_AT=17 FAIL_WITH=28 program     # ENOSPC at operation 17
//
// FAIL_EVERY=M: every M-th operation after it fails, too. FAIL_RANK=1: only in the process of that rank.
// FAIL_CALL=pread: only calls of this function count. Reads count unless FAIL_WITH is ENOSPC.
// FAIL_COUNT=FILE: writes the number of operations there at the end.
// FAIL_SHORT=BYTES: pread and pwrite move only so many bytes in place of failing. FAIL_FLIP=1: pread succeeds, with
// another first bit.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

bool is_this_rank() {
  const long wanted = number("FAIL_RANK", -1);
  return wanted < 0 || wanted == number("OMPI_COMM_WORLD_RANK", number("RANK", 0));
}

struct Plan {
  std::string under = std::getenv("FAIL_UNDER") == nullptr ? "" : std::getenv("FAIL_UNDER");
  long at = number("FAIL_AT", 0);
  int error = static_cast<int>(number("FAIL_WITH", ENOSPC));
  long every = number("FAIL_EVERY", 0);
  std::string call = std::getenv("FAIL_CALL") == nullptr ? "" : std::getenv("FAIL_CALL");
  long shortened = number("FAIL_SHORT", -1);
  bool flips = number("FAIL_FLIP", 0) != 0;
  bool on = !under.empty() && is_this_rank();
  std::atomic<long> count = 0;
  std::array<std::atomic<bool>, 4096> watched{};  // descriptors of files below the folder
};

Plan& plan() {
  static auto* instance = new Plan;  // other objects write files when they are destroyed
  return *instance;
}

[[gnu::destructor]] void report() {
  const char* file = std::getenv("FAIL_COUNT");
  if (file == nullptr || !plan().on) return;
  if (std::FILE* out = std::fopen(file, "w")) {
    std::fprintf(out, "%ld\n", plan().count.load());
    std::fclose(out);
  }
}

bool is_below(const char* path) {
  if (!plan().on) return false;
  std::string text(path);
  if (text.empty() || text[0] != '/') {
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) == nullptr) return false;
    text = std::string(folder) + "/" + text;
  }
  return text.compare(0, plan().under.size(), plan().under) == 0;
}

bool is_watched(int fd) {
  return plan().on && fd >= 0 && static_cast<size_t>(fd) < plan().watched.size() &&
         plan().watched[static_cast<size_t>(fd)];
}

// True, with errno set: this operation is the one that fails.
bool fails(const char* name, bool writes) {
  if (!writes && plan().error == ENOSPC) return false;
  if (!plan().call.empty() && plan().call != name) return false;
  const long now = ++plan().count;
  if (plan().at == 0 || now < plan().at) return false;
  if (now != plan().at && (plan().every == 0 || (now - plan().at) % plan().every != 0)) return false;
  errno = plan().error;
  return true;
}

int watch(int fd, bool below) {
  if (plan().on && fd >= 0 && static_cast<size_t>(fd) < plan().watched.size())
    plan().watched[static_cast<size_t>(fd)] = below;
  return fd;
}

bool opens_to_write(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0; }

template <class Function, class... Arguments>
auto call(const char* name, bool counts, bool writes, Arguments... arguments)
    -> decltype(next<Function>(name)(arguments...)) {
  if (counts && fails(name, writes)) return -1;
  return next<Function>(name)(arguments...);
}

// pread, pwrite and their names with 64: a failure may be a short or a changed transfer.
template <class Data>
ssize_t transfer(const char* name, const char* real, bool writes, int fd, Data* data, size_t size, off_t at) {
  const auto move = next<ssize_t(int, Data*, size_t, off_t)>(real);
  if (!is_watched(fd) || !fails(name, writes)) return move(fd, data, size, at);
  if (plan().shortened == 0) return 0;
  if (plan().shortened > 0) {
    const auto part = static_cast<size_t>(plan().shortened);
    const size_t blocks = (part + 4095) / 4096 * 4096;  // a direct transfer moves whole ones
    return std::min(move(fd, data, std::min(size, blocks), at), static_cast<ssize_t>(part));
  }
  if constexpr (!std::is_const_v<Data>) {
    if (plan().flips) {
      const ssize_t moved = move(fd, data, size, at);
      if (moved > 0) *static_cast<unsigned char*>(data) ^= 1;
      return moved;
    }
  }
  return -1;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  const bool below = is_below(path);
  if (below && fails("open", opens_to_write(flags))) return -1;
  return watch(next<int(const char*, int, ...)>("open")(path, flags, mode), below);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  const bool below = is_below(path);
  if (below && fails("open", opens_to_write(flags))) return -1;
  return watch(next<int(const char*, int, ...)>("open64")(path, flags, mode), below);
}
DIR* opendir(const char* path) {
  if (is_below(path) && fails("opendir", false)) return nullptr;
  return next<DIR*(const char*)>("opendir")(path);
}
int close(int fd) {
  watch(fd, false);
  return next<int(int)>("close")(fd);
}
ssize_t write(int fd, const void* data, size_t size) {
  return call<ssize_t(int, const void*, size_t)>("write", is_watched(fd), true, fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  return transfer("pwrite", "pwrite", true, fd, data, size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  return transfer("pwrite", "pwrite64", true, fd, data, size, at);
}
ssize_t pread(int fd, void* data, size_t size, off_t at) {
  return transfer("pread", "pread", false, fd, data, size, at);
}
ssize_t pread64(int fd, void* data, size_t size, off64_t at) {
  return transfer("pread", "pread64", false, fd, data, size, at);
}
int posix_fallocate(int fd, off_t at, off_t size) {  // returns its error
  return is_watched(fd) && fails("posix_fallocate", true)
             ? errno
             : next<int(int, off_t, off_t)>("posix_fallocate")(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
  return is_watched(fd) && fails("posix_fallocate", true)
             ? errno
             : next<int(int, off64_t, off64_t)>("posix_fallocate64")(fd, at, size);
}
int fallocate(int fd, int mode, off_t at, off_t size) {
  return call<int(int, int, off_t, off_t)>("fallocate", is_watched(fd), true, fd, mode, at, size);
}
int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  if (is_watched(fd) && fails("fallocate", true)) return -1;
  return next<int(int, int, off64_t, off64_t)>("fallocate64")(fd, mode, at, size);
}
ssize_t read(int fd, void* data, size_t size) {
  return call<ssize_t(int, void*, size_t)>("read", is_watched(fd), false, fd, data, size);
}
int fsync(int fd) { return call<int(int)>("fsync", is_watched(fd), true, fd); }
int rename(const char* from, const char* to) noexcept {
  return call<int(const char*, const char*)>("rename", is_below(to), true, from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return call<int(int, const char*, int, const char*, unsigned)>("renameat2", is_below(to), true, from_folder, from,
                                                                 to_folder, to, flags);
}
int link(const char* from, const char* to) noexcept {
  return call<int(const char*, const char*)>("link", is_below(to), true, from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return call<int(const char*, mode_t)>("mkdir", is_below(path), true, path, mode);
}
}
