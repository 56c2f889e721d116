#include "partita/checkpoint/background_save.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// Begins of copies: of any element, and of cache lines.
constexpr int64_t kAlignment = 64;

// A copy from a device at full speed, and not long for who waits until a save is given up.
constexpr int64_t kCopyBytes = int64_t{256} << 20;

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
                               std::span<std::byte> memory, Peers& peers, const SaveOptions& options)
    : save_(std::move(root), step, contents, peers, options),
      contents_(std::move(contents)),
      copies_(placed_in(memory, contents_)) {
  start([this, enter = options.enter] {
    try {
      if (enter) enter();
      copy();
    } catch (...) {
      copy_error_ = std::current_exception();
    }
    contents_ = {};  // and what they own
    copy_seconds_ = timer_.seconds();
    set(copied_);
    if (!copy_error_) save_.write(copies_);
  });
}

BackgroundSave::~BackgroundSave() {
  save_.give_up();
  if (thread_.joinable()) thread_.join();
}

void BackgroundSave::set(std::atomic<bool>& flag) {
  {
    const std::lock_guard lock(mutex_);
    flag = true;
  }
  changed_.notify_all();
}

// A thread that the system does not give is a failure of the save, which the next phase reports to all ranks.
void BackgroundSave::start(std::function<void()> work) {
  if (thread_.joinable()) thread_.join();
  idle_ = false;
  try {
    thread_ = std::thread([this, work = std::move(work)] {
      work();
      set(idle_);
    });
  } catch (...) {
    copy_error_ = std::current_exception();
    copied_ = idle_ = true;
  }
}

void BackgroundSave::copy() {
  for (size_t i = 0; i < contents_.pieces.size(); ++i) {
    const Piece& from = contents_.pieces[i];
    const std::span<std::byte> all(copies_.pieces[i].data, static_cast<size_t>(bytes_of(contents_, from)));
    for (int64_t begin = 0; begin < std::ssize(all); begin += kCopyBytes) {
      if (save_.is_given_up()) fail("the save was given up");
      const std::span<std::byte> to =
          all.subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(kCopyBytes, std::ssize(all) - begin)));
      if (from.data != nullptr)
        std::memcpy(to.data(), from.data + begin, to.size());
      else
        from.elsewhere->read(begin, to);
    }
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
  // An error of the copy is one of the save, for all ranks.
  (void)agree(peers, [this] {
    if (copy_error_) std::rethrow_exception(copy_error_);
    return std::string();
  });
  if (written_) {
    save_.finish(peers);
    if (peers.rank() != 0) durable_seconds_ = timer_.seconds();
    return true;
  }
  save_.gather(peers);
  written_ = true;
  if (peers.rank() == 0)
    start([this] {
      save_.publish();
      durable_seconds_ = timer_.seconds();
    });
  return false;
}

void BackgroundSave::finish(Peers& peers) {
  do {
    wait_for_all(peers, [this](std::chrono::milliseconds most) {
      std::unique_lock lock(mutex_);
      return changed_.wait_for(lock, most, [this] { return idle_.load(); });
    });
  } while (!advance(peers));
}

}  // namespace partita::internal
