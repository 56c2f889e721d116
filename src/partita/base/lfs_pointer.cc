#include "partita/base/lfs_pointer.h"

#include "partita/base/error.h"

namespace partita {

bool is_lfs_pointer(std::string_view beginning) {
  return beginning.starts_with("version https://git-lfs.github.com/spec/");
}

void refuse_lfs_pointer(std::string_view beginning, std::string_view path) {
  if (is_lfs_pointer(beginning))
    fail("{} is a Git LFS pointer, not the file itself: run 'git lfs pull' in its repository, or download the file",
         path);
}

}  // namespace partita
