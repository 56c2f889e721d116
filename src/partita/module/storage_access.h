// Storages whose memory is not there: reading it is an error with a message of ours. Without that, torch::save would
// write such a tensor as if it had no elements.
#pragma once
#include <c10/core/Storage.h>

#include <string>

namespace partita::internal {

// Whatever asks the storage for its memory, such as data_ptr and torch::save, fails from now on.
void forbid_access(const c10::Storage&, std::string message);
// The storage has this memory from now on.
void allow_access(const c10::Storage&, at::DataPtr&& memory);

}  // namespace partita::internal
