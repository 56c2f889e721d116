// Files that are mapped, so that a read of one that has become shorter, or whose disk fails, ends with its name: the
// kernel sends SIGBUS then, of which nothing else is known but an address.
//
//   install_mapping_guard();                       // in main(); from then on SIGBUS in a mapping prints one sentence
//   // partita: data/text.bin became shorter, or its disk failed, while it was read: ...
//
// MappedFile enters and leaves its mappings here; the handler ends the process with exit code 1, as an error does.
#pragma once
#include <cstddef>
#include <string>

namespace partita::internal {

// Until leave_mapping: addresses `begin` .. `begin` + `bytes` - 1 are of the file `name`. Safe from any thread.
void enter_mapping(const void* begin, size_t bytes, const std::string& name);
void leave_mapping(const void* begin);

// Does nothing where the process has a handler of SIGBUS already.
void install_mapping_guard();

}  // namespace partita::internal
