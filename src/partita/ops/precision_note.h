// What a user should know about a precision before a run on this CPU.
//
//   if (const std::string note = cpu_precision_note(DType::bf16); !note.empty()) log::info(note);
#pragma once
#include <string>

#include "partita/base/dtype.h"

namespace partita::internal {

// One sentence where the precision is not faster than fp32; empty where there is nothing to say.
[[nodiscard]] std::string precision_note(DType compute, bool bf16_instructions);

// Of this CPU.
[[nodiscard]] std::string cpu_precision_note(DType compute);

}  // namespace partita::internal
