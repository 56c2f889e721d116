#include "partita/device/scratch_file.h"

#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "partita/base/error.h"
#include "partita/base/mapping_guard.h"
#include "partita/base/printable.h"
#include "partita/device/scalar_type.h"
#include "partita/device/stream_delay.h"

namespace partita::internal {
namespace {

// Transfers in flight, and bytes of each: enough for the disks that we know to reach their rate.
constexpr size_t kWorkers = 8;
constexpr int64_t kPiece = int64_t{4} << 20;

class AllOf final : public EventState {
 public:
  explicit AllOf(std::vector<Event> events) : events_(std::move(events)) {}
  bool test() override {
    return std::ranges::all_of(events_, [](const Event& event) { return event.done(); });
  }
  // All have ended, also where one has failed.
  void wait() override {
    std::exception_ptr first;
    for (const Event& event : events_) try {
        event.wait();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    if (first) std::rethrow_exception(first);
  }

 private:
  std::vector<Event> events_;
};

uint64_t block_sum(const std::byte* block) {
  return std::max<uint64_t>(XXH3_64bits(block, ScratchFile::kBlock), 1);  // 0: not known
}

// Without a name where the file system can do that, otherwise removed at once.
int open_nameless(const std::filesystem::path& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = (folder / "partita-scratch-XXXXXX").string();
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) (void)unlink(name.c_str());
  return named;
}

}  // namespace

ScratchFile::ScratchFile(const std::filesystem::path& folder, int64_t bytes, bool checked)
    : folder_(folder), bytes_(whole_blocks(bytes)) {
  const std::string shown = printable_line(folder.string());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("{}: the folder for scratch data cannot be created: {}", shown, error.message());
  const int fd = open_nameless(folder);
  if (fd < 0) fail("{}: scratch data cannot be written: {}", shown, io_reason(errno));
  file_ = FileDescriptor(fd);
  require_free_bytes(folder, bytes_);
  if (bytes_ == 0) return;
  int reason = EINTR;
  while (reason == EINTR) reason = posix_fallocate(fd, 0, bytes_);
  if (reason != 0) fail("{}: {} of scratch data cannot be reserved: {}", shown, human_bytes(bytes_), io_reason(reason));
  direct_ = fcntl(fd, F_SETFL, O_DIRECT) == 0;  // afterwards: where the system reserves by writing single bytes
  mapping_ = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail("{}: {} of scratch data cannot be mapped: {}", shown, human_bytes(bytes_),
         errno == ENOMEM ? "the limit of address space is too low (ulimit -v): raise it" : io_reason(errno));
  }
  enter_mapping(mapping_, static_cast<size_t>(bytes_), shown + ", scratch data");
  if (checked) sums_.resize(static_cast<size_t>(bytes_ / kBlock), 0);
  for (size_t i = 0; i < kWorkers; ++i) workers_.push_back(std::make_unique<Worker>());
}

ScratchFile::~ScratchFile() {
  workers_.clear();
  if (mapping_ == nullptr) return;
  leave_mapping(mapping_);
  (void)munmap(mapping_, static_cast<size_t>(bytes_));
}

at::Tensor ScratchFile::view(int64_t offset, int64_t count, DType dtype) const {
  PARTITA_CHECK(offset >= 0 && count >= 0 && offset + count * size_of(dtype) <= bytes_, "{} elements at byte {} of {}",
                count, offset, bytes_);
  return at::from_blob(static_cast<std::byte*>(mapping_) + offset, {count}, at::TensorOptions(scalar_type(dtype)));
}

Event ScratchFile::transfer(void* memory, int64_t offset, int64_t bytes, bool writes) {
  PARTITA_CHECK(offset % kBlock == 0 && bytes % kBlock == 0 && reinterpret_cast<uintptr_t>(memory) % kBlock == 0 &&
                    offset >= 0 && offset + bytes <= bytes_,
                "a transfer of {} bytes at {}: expected multiples of {} within {}", bytes, offset, kBlock, bytes_);
  // Not when the transfer is made: memory that changes until then shows, too.
  if (writes && !sums_.empty())
    for (int64_t at = 0; at < bytes; at += kBlock)
      sums_[static_cast<size_t>((offset + at) / kBlock)] = block_sum(static_cast<std::byte*>(memory) + at);
  std::vector<Event> pieces;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    const int64_t size = std::min(kPiece, bytes - begin);
    auto* from = static_cast<std::byte*>(memory) + begin;
    pieces.push_back(workers_[next_++ % workers_.size()]->submit([this, from, at = offset + begin, size, writes] {
      std::this_thread::sleep_for(next_stream_delay());
      move(from, at, size, writes);
      if (!writes) check(from, at, size);
      return Event();
    }));
  }
  return Event(std::make_shared<AllOf>(std::move(pieces)));
}

void ScratchFile::move(std::byte* memory, int64_t offset, int64_t bytes, bool writes) const {
  const char* what = writes ? "written" : "read";
  for (int64_t done = 0; done < bytes;) {
    const auto left = static_cast<size_t>(bytes - done);
    const ssize_t moved = writes ? pwrite(file_.get(), memory + done, left, offset + done)
                                 : pread(file_.get(), memory + done, left, offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) fail("{}: scratch data cannot be {}: {}", printable_line(folder_.string()), what, io_reason(errno));
    // A direct transfer goes on at a multiple of a block only.
    if (moved == 0 || (direct_ && moved % kBlock != 0))
      fail("{}: scratch data: {} of {} bytes at byte {} were {}, and the system gave no reason",
           printable_line(folder_.string()), moved, left, offset + done, what);
    done += moved;
  }
}

void ScratchFile::check(const std::byte* memory, int64_t offset, int64_t bytes) const {
  if (sums_.empty()) return;
  for (int64_t at = 0; at < bytes; at += kBlock) {
    const uint64_t expected = sums_[static_cast<size_t>((offset + at) / kBlock)];
    if (expected == 0 || expected == block_sum(memory + at)) continue;
    fail(
        "{}: scratch data: the {} bytes read at byte {} are not what was written there: the disk is faulty, or this "
        "is a bug",
        printable_line(folder_.string()), kBlock, offset + at);
  }
}

void ScratchFile::uncheck(int64_t offset, int64_t bytes) {
  if (sums_.empty()) return;
  std::fill(sums_.begin() + offset / kBlock, sums_.begin() + (offset + bytes + kBlock - 1) / kBlock, 0);
}

}  // namespace partita::internal
