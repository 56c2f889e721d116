// The message of an expected error.
//
//   EXPECT_THAT(error_message([&] { validate(config, 4); }), HasSubstr("use 24 or 32"));
#pragma once
#include <string>

#include "partita/base/error.h"

namespace partita::internal {

// The message of the Error that `action` throws; "no error" where it throws none.
template <class Action>
std::string error_message(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace partita::internal
