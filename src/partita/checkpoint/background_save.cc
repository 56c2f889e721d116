#include "partita/checkpoint/background_save.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/checksum.h"

namespace partita::internal {
namespace {

// Begins of copies: of any element, and of cache lines.
constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The same contents with every piece at its place in `memory`.
CheckpointContents placed_in(std::span<std::byte> memory, const CheckpointContents& contents) {
  PARTITA_CHECK(std::ssize(memory) >= snapshot_bytes(contents), "{} bytes for a copy of {}", memory.size(),
                snapshot_bytes(contents));
  CheckpointContents copies{.tensors = contents.tensors, .pieces = contents.pieces, .scalars = contents.scalars};
  int64_t offset = 0;
  for (Piece& piece : copies.pieces) {
    piece.elsewhere.reset();
    piece.data = memory.data() + offset;
    offset += aligned(bytes_of(contents, piece));
  }
  return copies;
}

}  // namespace

int64_t snapshot_bytes(const CheckpointContents& contents) {
  int64_t bytes = 0;
  for (const Piece& piece : contents.pieces) bytes += aligned(bytes_of(contents, piece));
  return bytes;
}

BackgroundSave::BackgroundSave(std::filesystem::path root, int64_t step, CheckpointContents contents,
                               std::span<std::byte> memory, Peers& peers, const SaveOptions& options,
                               std::function<void()> enter)
    : save_(std::move(root), step, contents, peers, options),
      contents_(std::move(contents)),
      copies_(placed_in(memory, contents_)) {
  start([this, enter = std::move(enter)] {
    try {
      if (enter) enter();
      copy();
    } catch (...) {
      copy_error_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      copied_ = true;
    }
    changed_.notify_all();
    if (!copy_error_) save_.write(copies_);
  });
}

BackgroundSave::~BackgroundSave() {
  save_.give_up();
  if (thread_.joinable()) thread_.join();
}

void BackgroundSave::start(std::function<void()> work) {
  if (thread_.joinable()) thread_.join();
  idle_ = false;
  thread_ = std::thread([this, work = std::move(work)] {
    work();
    {
      const std::lock_guard lock(mutex_);
      idle_ = true;
    }
    changed_.notify_all();
  });
}

void BackgroundSave::copy() {
  for (size_t i = 0; i < contents_.pieces.size(); ++i) {
    const Piece& from = contents_.pieces[i];
    const std::span<std::byte> to(copies_.pieces[i].data, static_cast<size_t>(bytes_of(contents_, from)));
    if (from.data != nullptr) {
      std::memcpy(to.data(), from.data, to.size());
      continue;
    }
    for (int64_t begin = 0; begin < std::ssize(to); begin += kChunkBytes)
      from.elsewhere->read(begin, to.subspan(static_cast<size_t>(begin),
                                             static_cast<size_t>(std::min(kChunkBytes, std::ssize(to) - begin))));
  }
}

void BackgroundSave::wait_copied() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return copied_.load(); });
}

void BackgroundSave::wait_idle() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return idle_.load(); });
}

bool BackgroundSave::advance(Peers& peers) {
  wait_idle();
  if (written_) {
    save_.finish(peers);
    return true;
  }
  // An error of the copy is one of the save, for all ranks.
  (void)agree(peers, [this] {
    if (copy_error_) std::rethrow_exception(copy_error_);
    return std::string();
  });
  save_.gather(peers);
  written_ = true;
  start([this] { save_.publish(); });
  return false;
}

void BackgroundSave::finish(Peers& peers) {
  while (!advance(peers)) {
  }
}

}  // namespace partita::internal
