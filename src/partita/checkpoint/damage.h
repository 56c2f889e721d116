// What is wrong with a checkpoint's content: a byte has changed, a file is missing or cut short, a field makes no
// sense. Its run can go back to the checkpoint before. Any other Error says nothing of the content: the file could not
// be read (rights, a disk or network that is away, too many open files), or another version wrote it.
//
//   if (size != expected) damaged("{} has {} bytes instead of {}", path, size, expected);
#pragma once
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {

class Damaged : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) {
  throw Damaged(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace partita::internal
