// Names the file when reading a mapping fails because the file was truncated or its disk failed: the kernel then sends
// SIGBUS with nothing but an address.
//
//   install_mapping_guard();                       // in main(); then SIGBUS within a mapping prints one sentence
//   // partita: data/text.bin became shorter, or its disk failed, while it was read: ...
//
// MappedFile registers its mappings here; the handler ends the process with exit code 1, like an error.
#pragma once
#include <cstddef>
#include <string>

namespace partita::internal {

// Registers addresses `begin` .. `begin` + `bytes` - 1 for the file `name` until leave_mapping. Thread-safe.
void enter_mapping(const void* begin, size_t bytes, const std::string& name);
void leave_mapping(const void* begin);

// No-op if the process already has a SIGBUS handler.
void install_mapping_guard();

}  // namespace partita::internal
