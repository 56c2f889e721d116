// A Git LFS pointer: the few lines of text that a clone without Git LFS has in the place of a large file.
//
//   refuse_lfs_pointer(file.text(), path.string());      // before the bytes are taken for what the name promises
#pragma once
#include <string_view>

namespace partita {

[[nodiscard]] bool is_lfs_pointer(std::string_view beginning);

// Error, with what to do, if the beginning of a file says that it is one.
void refuse_lfs_pointer(std::string_view beginning, std::string_view path);

}  // namespace partita
