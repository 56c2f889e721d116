// A note to the user about a compute precision on this CPU, shown before a run.
//
//   if (const std::string note = cpu_precision_note(DType::bf16); !note.empty()) log::info(note);
#pragma once
#include <string>

#include "partita/base/dtype.h"

namespace partita::internal {

// One sentence if the precision is not faster than fp32; otherwise empty.
[[nodiscard]] std::string precision_note(DType compute, bool bf16_instructions);

// The note for this CPU.
[[nodiscard]] std::string cpu_precision_note(DType compute);

}  // namespace partita::internal
