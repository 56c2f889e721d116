#include "partita/base/error.h"

#include <string_view>

namespace partita::internal {
namespace {

// The path within the project, without the build machine's folders.
std::string_view within_project(std::string_view file) {
  const size_t sources = file.rfind("/src/");
  return sources == file.npos ? file : file.substr(sources + 1);
}

}  // namespace

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(fmt::format("internal error at {}:{}: {} does not hold{}{}", within_project(file), line, condition,
                          message.empty() ? "" : ": ", message));
}

}  // namespace partita::internal
