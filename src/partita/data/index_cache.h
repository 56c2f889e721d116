// Arrays that are costly to make, kept in files: made once, then mapped by every rank of a machine, which shares their
// memory.
//
//   const IndexCache cache("data/corpus_text_document_cache");
//   const SharedArrays order = cache.get("train", "sequences 0 to 969\nsamples 1000\nseed 1234\n", 3,
//                                        [&] { return build(); });
//
// `description` is the key: everything that the arrays depend on, as text. It stands whole in the file,
// NAME-HASH.order, is compared whole, and can be read there. A file that is damaged, cut or another's is made anew.
// Files appear in one step, and one that is whole is never replaced: what a rank, here or on another machine that
// shares the folder, has mapped stays. Processes that want the same arrays wait while one of them builds, by a lock
// that the kernel lets go of when a process dies; if that one could not write them, or where there is no lock, all
// build at once, and the first file stays. A folder that cannot be written costs a warning, and the arrays lie in the
// memory of each process. The folder may be removed at any time.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace partita {

// Arrays of bytes and what keeps them alive. Each begins at a multiple of 8.
struct SharedArrays {
  std::shared_ptr<const void> owner;
  std::vector<std::span<const std::byte>> arrays;

  template <class T>
  [[nodiscard]] std::span<const T> as(size_t array) const {
    return {reinterpret_cast<const T*>(arrays[array].data()), arrays[array].size() / sizeof(T)};
  }
};

class IndexCache {
 public:
  using Build = std::function<SharedArrays()>;

  // Keeps nothing: every call builds.
  IndexCache() = default;
  // warns: says where it cannot write; of many ranks one does.
  explicit IndexCache(std::filesystem::path folder, bool warns = true) : folder_(std::move(folder)), warns_(warns) {}

  // Error: only what build() throws.
  [[nodiscard]] SharedArrays get(const std::string& name, const std::string& description, size_t count,
                                 const Build& build) const;

  // Where the arrays of this name and description lie.
  [[nodiscard]] std::filesystem::path file_of(const std::string& name, const std::string& description) const;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;  // empty: none
  bool warns_ = false;
};

// 32 hexadecimal digits of the bytes: XXH3, 128 bits.
[[nodiscard]] std::string content_hash(std::span<const std::byte> bytes);

}  // namespace partita
