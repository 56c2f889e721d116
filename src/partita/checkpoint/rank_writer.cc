#include "partita/checkpoint/rank_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/checksum.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

class RankWriter {
 public:
  RankWriter(const fs::path& partial, const CheckpointContents& state, const RankWriting& how)
      : partial_(partial), state_(state), how_(how), sums_(state.pieces.size()) {}

  PieceSums operator()(std::span<const RankFile> files) {
    for (const RankFile& file : files)
      if (!(file.constant && link(file))) write(file);
    return std::move(sums_);
  }

 private:
  // Calls take(chunk) for each chunk of the piece: in place if addressable, else copied.
  template <class Take>
  void for_each_chunk(const Piece& piece, const Take& take) {
    const int64_t bytes = bytes_of(state_, piece);
    for (int64_t c = 0; c < chunk_count(bytes); ++c) {
      if (how_.give_up != nullptr && *how_.give_up) fail("the save was given up");
      if (piece.data != nullptr) {
        take(chunk_of({piece.data, static_cast<size_t>(bytes)}, c));
        continue;
      }
      const int64_t begin = c * kChunkBytes;
      copy_.resize(static_cast<size_t>(std::min(kChunkBytes, bytes - begin)));
      piece.elsewhere->read(begin, copy_);
      take(std::span<const std::byte>(copy_));
    }
  }

  void write(const RankFile& file) {
    SafetensorsWriter out(partial_ / file.name, file.entries);
    for (const size_t i : file.pieces) {
      sums_[i].clear();
      for_each_chunk(state_.pieces[i], [&](std::span<const std::byte> chunk) {
        sums_[i].push_back(checksum(chunk));
        out.write(chunk);
      });
    }
    out.commit();
  }

  // Whether the file of the previous checkpoint has the same content, and is now this one's, too.
  bool link(const RankFile& file) {
    if (how_.previous.empty()) return false;
    const std::map<std::string, Stored> stored = stored_pieces(file);
    if (stored.size() != file.pieces.size()) return false;
    for (size_t k = 0; k < file.pieces.size(); ++k) {
      const SafetensorsEntry& entry = file.entries[k];
      const auto found = stored.find(entry.name);
      if (found == stored.end() || found->second.type != entry.type || found->second.shape != entry.shape) return false;
      std::vector<uint64_t>& sums = sums_[file.pieces[k]];
      sums.clear();
      for_each_chunk(state_.pieces[file.pieces[k]],
                     [&](std::span<const std::byte> chunk) { sums.push_back(checksum(chunk)); });
      if (sums != found->second.sums) return false;
    }
    if (!is_intact(how_.previous / file.name, file)) return false;
    std::error_code error;
    fs::create_hard_link(how_.previous / file.name, partial_ / file.name, error);
    return !error;
  }

  // Whether the file still holds what its checksums say: otherwise one damaged block would be in all checkpoints. A
  // process reads each file once.
  bool is_intact(const fs::path& path, const RankFile& file) const {
    static std::mutex mutex;
    static std::set<std::array<int64_t, 4>> intact;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return false;
    // With the time, since numbers of removed files are used again.
    const std::array<int64_t, 4> identity = {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino),
                                             info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    {
      const std::lock_guard lock(mutex);
      if (intact.contains(identity)) return true;
    }
    try {
      const SafetensorsFile stored(path);
      for (size_t k = 0; k < file.pieces.size(); ++k) {
        const std::span<const std::byte> bytes = stored.bytes(stored.at(file.entries[k].name));
        const std::vector<uint64_t>& sums = sums_[file.pieces[k]];
        for (size_t c = 0; c < sums.size(); ++c)
          if (checksum(chunk_of(bytes, static_cast<int64_t>(c))) != sums[c]) return false;
      }
    } catch (const Error&) {
      return false;
    }
    const std::lock_guard lock(mutex);
    intact.insert(identity);
    return true;
  }

  struct Stored {
    ElementType type;
    std::vector<int64_t> shape;
    std::vector<uint64_t> sums;
  };
  // The pieces of this file in the previous checkpoint, by key; empty if it has no file of this name and size.
  std::map<std::string, Stored> stored_pieces(const RankFile& file) const {
    std::map<std::string, Stored> pieces;
    try {
      Manifest manifest = read_manifest(how_.previous);
      const auto same = std::ranges::find(manifest.files, file.name, &StoredFile::name);
      if (same == manifest.files.end() || same->bytes != file.bytes) return {};
      const auto number = static_cast<int>(same - manifest.files.begin());
      for (StoredTensor& tensor : manifest.tensors)
        for (StoredPiece& piece : tensor.pieces)
          if (piece.file == number)
            pieces.emplace(piece.key, Stored{element_type(tensor.info.dtype), piece_shape(tensor.info, piece.boxes[0]),
                                             std::move(piece.checksums)});
    } catch (const Error&) {  // it cannot be used: this one is written whole
      return {};
    }
    return pieces;
  }

  const fs::path& partial_;
  const CheckpointContents& state_;
  const RankWriting& how_;
  PieceSums sums_;
  std::vector<std::byte> copy_;
};

}  // namespace

PieceSums write_rank_files(const fs::path& partial, const CheckpointContents& state, std::span<const RankFile> files,
                           const RankWriting& how) {
  if (!fs::is_directory(partial))
    fail("{} was made by rank 0 but is not visible here: checkpoints need a folder that all ranks share",
         partial.string());
  return RankWriter(partial, state, how)(files);
}

}  // namespace partita::internal
