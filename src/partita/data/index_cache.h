// Caches expensive arrays in files: built once, then memory-mapped and shared by all ranks of a machine.
//
//   const IndexCache cache("data/corpus_text_document_cache");
//   const SharedArrays order = cache.get("train", "sequences 0 to 969\nsamples 1000\nseed 1234\n", 3,
//                                        [&] { return build(); });
//
// `description` is the key: everything the arrays depend on, as text. The file NAME-HASH.order contains it in full, for
// comparison and for people. Damaged, truncated or mismatched files are rebuilt. Files appear atomically and complete
// files are never replaced, so mappings stay valid, also on other machines that share the folder. Processes that need
// the same arrays wait while one of them builds, using a lock that the kernel releases when a process dies. If that
// process cannot write the file, or locks are unavailable, each process builds, and the first file stays. If the folder
// cannot be written, there is a warning and each process holds its own arrays in memory. The folder may be deleted at
// any time.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace partita {

// Byte arrays and their owner, which keeps them alive. Each array starts at a multiple of 8.
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

  // No cache: every call builds.
  IndexCache() = default;
  // warns: log a warning if the folder cannot be written; set it on one rank only.
  explicit IndexCache(std::filesystem::path folder, bool warns = true) : folder_(std::move(folder)), warns_(warns) {}

  // Error: only those thrown by build().
  [[nodiscard]] SharedArrays get(const std::string& name, const std::string& description, size_t count,
                                 const Build& build) const;

  // The file for this name and description.
  [[nodiscard]] std::filesystem::path file_of(const std::string& name, const std::string& description) const;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;  // empty: no cache
  bool warns_ = false;
};

// XXH3 (128 bits) of the bytes as 32 hexadecimal digits.
[[nodiscard]] std::string content_hash(std::span<const std::byte> bytes);

}  // namespace partita
