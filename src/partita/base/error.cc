#include "partita/base/error.h"

namespace partita::internal {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(fmt::format("internal error at {}:{}: {} does not hold{}{}", file, line, condition,
                          message.empty() ? "" : ": ", message));
}

}  // namespace partita::internal
