// A call of a communicator in words, for messages about calls that do not finish. Pure.
//
//   call_text("tp", "all_reduce", 210)          // "all-reduce no. 210 of the tensor-parallel ranks"
//   call_text("pp 1>0", "receive", 3, 2)        // "message no. 3 from pipeline rank 1 to 0"
//   call_text("mine", "send", 3, 2)             // "send no. 3 of mine with rank 2"
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace partita::internal {

// group: the name of a communicator; those of a mesh (comm/mesh.h) are spelled out. peer: the other rank of send and
// receive; -1: none.
[[nodiscard]] std::string call_text(std::string_view group, std::string_view kind, int64_t number, int peer = -1);

}  // namespace partita::internal
