// Damage to a checkpoint's contents: a changed byte, a missing or truncated file, an invalid field. The run can fall
// back to the previous checkpoint. Other Errors do not mean damage: the file could not be read (permissions, an
// unavailable disk or network, too many open files), or another version wrote it.
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
