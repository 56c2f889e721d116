// Limits the memory that code may take, apart from mapped files.
//
//   const MemoryLimit limit(80U << 20);
//   EXPECT_NO_THROW(save(...));
//
// Sanitizers take memory of their own: PARTITA_NO_MEMORY_LIMIT is then defined, and nothing else.
#pragma once
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARTITA_NO_MEMORY_LIMIT
#else
#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

namespace partita::internal {

// Bytes of memory that count against RLIMIT_DATA.
inline rlim_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmData:") {
      rlim_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  return 0;
}

// While it lives, this process can have this much more memory, apart from mapped files.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t more) {
    ::malloc_trim(0);  // what is free is given back now, and not while the limit holds
    ::getrlimit(RLIMIT_DATA, &before_);
    rlimit limited = before_;
    limited.rlim_cur = data_bytes() + more;
    ::setrlimit(RLIMIT_DATA, &limited);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { ::setrlimit(RLIMIT_DATA, &before_); }

 private:
  rlimit before_{};
};

}  // namespace partita::internal
#endif
