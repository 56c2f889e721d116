// Saving in three phases, each ending in an agreement of all ranks: plan (nothing written), write (one file per rank),
// complete (rank 0: manifest, rename, retention).
#include <algorithm>
#include <mutex>
#include <set>
#include <system_error>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/json.h"
#include "partita/base/log.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/safetensors.h"

namespace partita {
using namespace internal;
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

int64_t bytes_of(const CheckpointContents& state, const Piece& piece) {
  return piece.box.count() * size_of(state.tensors[static_cast<size_t>(piece.tensor)].dtype);
}

void check_pieces(const CheckpointContents& state) {
  for (const Piece& piece : state.pieces) {
    PARTITA_CHECK(piece.tensor >= 0 && piece.tensor < std::ssize(state.tensors), "tensor {}", piece.tensor);
    PARTITA_CHECK(piece.data || piece.elsewhere || piece.box.count() == 0, "no data for '{}'",
                  state.tensors[static_cast<size_t>(piece.tensor)].name);
  }
  // Numbers that JSON lacks (NaN, infinity) would read back as null.
  if (parse_json(state.scalars.dump(), "scalars") != state.scalars)
    fail("the scalars of the checkpoint hold a number that is not finite: {}", state.scalars.dump());
}

json tensors_to_json(const std::vector<TensorInfo>& tensors) {
  json list = json::array();
  for (const TensorInfo& tensor : tensors) list.push_back({tensor.name, name_of(tensor.dtype), tensor.shape});
  return list;
}

// The entries of this rank's file.
std::vector<SafetensorsEntry> entries_of(const CheckpointContents& state) {
  std::vector<SafetensorsEntry> entries;
  for (const Piece& piece : state.pieces) {
    if (piece.box.count() == 0) continue;
    const TensorInfo& tensor = state.tensors[static_cast<size_t>(piece.tensor)];
    entries.push_back({piece_key(tensor, piece.box), element_type(tensor.dtype), piece_shape(tensor, piece.box)});
  }
  return entries;
}

// A rank's description of its pieces, exchanged before anything is written.
json describe(int64_t step, const CheckpointContents& state) {
  json pieces = json::array();
  int64_t bytes = 0;
  for (const Piece& piece : state.pieces) {
    if (piece.box.count() == 0) continue;
    pieces.push_back({piece.tensor, piece.box.row, piece.box.rows, piece.box.column, piece.box.columns});
    bytes += bytes_of(state, piece);
  }
  return {{"step", step},
          {"tensors", checksum(tensors_to_json(state.tensors).dump())},
          {"scalars", checksum(state.scalars.dump())},
          {"pieces", pieces},
          {"bytes", bytes + std::ssize(make_safetensors_header(entries_of(state)))}};
}

// The box of a piece in a rank's description.
Box box_of(const json& piece) { return {.row = piece[1], .rows = piece[2], .column = piece[3], .columns = piece[4]}; }

// Rank 0: removes leftovers and creates the folder. Returns the free space in bytes.
int64_t prepare_folders(const fs::path& root, const fs::path& partial) {
  std::error_code error;
  fs::create_directories(root, error);
  if (!error) remove_partials(root);
  if (!error) fs::create_directory(partial, error);
  if (error) fail("cannot make the folder {}: {}", partial.string(), error.message());
  return free_bytes(root);
}

// The final manifest except for its checksums, which are still zero. The same on every rank.
Manifest plan_manifest(int64_t step, const CheckpointContents& state, const std::vector<json>& ranks) {
  Manifest manifest{step, static_cast<int>(ranks.size()), state.scalars, {}, {}};
  for (const TensorInfo& tensor : state.tensors) manifest.tensors.push_back({tensor, {}});
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const char* key : {"step", "tensors", "scalars"})
      PARTITA_CHECK(ranks[rank][key] == ranks[0][key], "rank {} and rank 0 do not save the same {}", rank, key);
    manifest.files.push_back({rank_file_name(static_cast<int>(rank)), ranks[rank]["bytes"]});
    for (const json& p : ranks[rank]["pieces"]) {
      StoredTensor& tensor = manifest.tensors[p[0].get<size_t>()];
      const Box box = box_of(p);
      const int64_t chunks = chunk_count(box.count() * size_of(tensor.info.dtype));
      tensor.pieces.push_back({static_cast<int>(rank),
                               piece_key(tensor.info, box),
                               {box},
                               std::vector<uint64_t>(static_cast<size_t>(chunks))});
    }
  }
  check_tensors(manifest.tensors);
  return manifest;
}

void check_free_space(const fs::path& root, const Manifest& manifest, int64_t free) {
  int64_t needed = std::ssize(manifest_text(manifest));
  for (const StoredFile& file : manifest.files) needed += file.bytes;
  if (needed > free)
    fail(
        "no room for the checkpoint of step {} in {}: {} needed, {} free: free some space, keep fewer checkpoints or "
        "choose another folder; older checkpoints are unchanged",
        manifest.step, root.string(), human_bytes(needed), human_bytes(free));
}

// The given chunk of a piece of `bytes` bytes: in place if addressable, else copied into `copy`.
std::span<const std::byte> read_chunk(const Piece& piece, int64_t bytes, int64_t number, std::vector<std::byte>& copy) {
  if (piece.data != nullptr) return chunk_of({piece.data, static_cast<size_t>(bytes)}, number);
  const int64_t begin = number * kChunkBytes;
  copy.resize(static_cast<size_t>(std::min(kChunkBytes, bytes - begin)));
  piece.elsewhere->read(begin, copy);
  return copy;
}

// Writes this rank's file; returns the checksums of its chunks in order.
std::vector<uint64_t> write_pieces(const fs::path& partial, const CheckpointContents& state, int rank) {
  if (!fs::is_directory(partial))
    fail("{} was made by rank 0 but is not visible here: checkpoints need a folder that all ranks share",
         partial.string());
  SafetensorsWriter out(partial / rank_file_name(rank), entries_of(state));
  std::vector<uint64_t> sums;
  std::vector<std::byte> copy;
  for (const Piece& piece : state.pieces) {
    const int64_t bytes = bytes_of(state, piece);
    for (int64_t c = 0; c < chunk_count(bytes); ++c) {
      const std::span<const std::byte> chunk = read_chunk(piece, bytes, c, copy);
      sums.push_back(checksum(chunk));
      out.write(chunk);
    }
  }
  out.commit();
  return sums;
}

// Distributes a rank's chunk checksums, which are in the order of its pieces, to the pieces of the manifest.
void fill_checksums(Manifest& manifest, const std::vector<json>& ranks, const std::vector<std::string>& sums) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto mine = parse_json(sums[rank], "checksums").get<std::vector<uint64_t>>();
    size_t next = 0;
    for (const json& p : ranks[rank]["pieces"]) {
      StoredPiece& piece = find_piece(manifest.tensors[p[0].get<size_t>()], box_of(p));
      for (uint64_t& sum : piece.checksums) sum = mine.at(next++);
    }
  }
}

// A persistent problem would otherwise be reported at every save.
void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  const std::lock_guard lock(mutex);
  if (said.insert(text).second) log::warn("{}", text);
}

void apply_retention(const fs::path& root, int64_t current, const Retention& retention) {
  std::vector<int64_t> steps;
  for (const StepFolder& folder : list_steps(root)) steps.push_back(folder.step);
  // Unreadable checkpoints are not removed: a run may still need them once the disk is repaired.
  int64_t unusable = 0;
  std::string first;
  const auto is_good = [&](int64_t step) {
    try {
      (void)read_manifest(root / step_folder_name(step));
      return true;
    } catch (const Error& error) {
      if (++unusable == 1) first = error.what();
      return false;
    }
  };
  const std::vector<int64_t> removed = steps_to_remove(steps, current, retention, is_good);
  if (unusable == 1) warn_once(fmt::format("an older checkpoint is kept because it cannot be used: {}", first));
  if (unusable > 1)
    warn_once(
        fmt::format("{} older checkpoints are kept because they cannot be used; the newest: {}", unusable, first));
  for (int64_t step : removed) remove_checkpoint(root / step_folder_name(step));
}

// On rank 0, once every file is on disk.
void complete(const fs::path& root, const fs::path& folder, const Manifest& manifest, const Retention& retention) {
  const fs::path partial = partial_path(folder);
  for (const StoredFile& file : manifest.files) {
    std::error_code error;
    const auto bytes = fs::file_size(partial / file.name, error);
    if (error || std::cmp_not_equal(bytes, file.bytes))
      fail("{} was written but rank 0 does not see all of it: checkpoints need a folder that all ranks share",
           (partial / file.name).string());
  }
  write_file(partial / kManifestName, manifest_text(manifest));
  publish(partial, folder);
  try {
    apply_retention(root, manifest.step, retention);
  } catch (const Error& error) {  // the new checkpoint is safe: do not end the run
    log::warn("older checkpoints were not removed: {}", error.what());
  }
}

std::vector<json> parse_all(const std::vector<std::string>& texts) {
  std::vector<json> values;
  for (const std::string& text : texts) values.push_back(parse_json(text, "a message between ranks"));
  return values;
}

}  // namespace

fs::path save_checkpoint(const fs::path& root, int64_t step, const CheckpointContents& state, Peers& peers,
                         const Retention& retention) {
  const bool leader = peers.rank() == 0;
  const fs::path folder = root / step_folder_name(step), partial = partial_path(folder);
  try {
    const std::vector<json> ranks = parse_all(agree(peers, [&] {
      check_pieces(state);
      json mine = describe(step, state);
      if (leader) mine["free"] = prepare_folders(root, partial);
      return mine.dump();
    }));
    Manifest manifest = plan_manifest(step, state, ranks);
    check_free_space(root, manifest, ranks[0]["free"]);
    const std::vector<std::string> sums =
        agree(peers, [&] { return json(write_pieces(partial, state, peers.rank())).dump(); });
    (void)agree(peers, [&] {
      if (leader) {
        fill_checksums(manifest, ranks, sums);
        complete(root, folder, manifest, retention);
      }
      return std::string();
    });
  } catch (...) {
    std::error_code ignored;
    if (leader) fs::remove_all(partial, ignored);
    throw;
  }
  return folder;
}

}  // namespace partita
