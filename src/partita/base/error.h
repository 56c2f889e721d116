// Project errors: exceptions that say in one line what was expected, what was found and what to do.
//
//   if (tokens % ranks != 0) fail("global batch {} is not divisible by {} ranks: use {}", global_batch, ranks, better);
//
// main prints the line and returns 1 (2 for UsageError). The library never calls exit().
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace partita {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Wrong command line: exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Thrown instead of continuing when the user asked to stop (Ctrl-C twice) or a peer has failed.
class Interrupted : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

namespace internal {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);
}

}  // namespace partita

// Checks an invariant of our own code, not of user input; reports the source line. PARTITA_CHECK(a == b, "a {} b {}",
// a, b).
#define PARTITA_CHECK(condition, ...)                                                                   \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]]                                                                      \
      ::partita::internal::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
