// A large file that appears under its name only when complete, and never takes the place of another.
//
//   NewFile file("out/model.gguf", bytes);                 // error if it exists, or if the bytes do not fit
//   for (auto piece : pieces) file.write(piece);
//   file.publish();                                        // otherwise the destructor removes what was written
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "partita/base/file.h"
#include "partita/base/made_folders.h"

namespace partita::internal {

class NewFile {
 public:
  // `bytes`: the size that it will have. Error: something has that name; its folder cannot be created or written; not
  // enough free space.
  NewFile(std::filesystem::path path, int64_t bytes);

  void write(std::span<const std::byte> bytes) { file_->write(bytes); }
  [[nodiscard]] int64_t size() const { return file_->size(); }  // bytes written so far
  // Durable. Error: a file of that name has appeared in the meantime.
  void publish();

 private:
  std::filesystem::path path_;
  int64_t bytes_;
  MadeFolders above_;
  std::optional<AtomicFile> file_;
};

}  // namespace partita::internal
