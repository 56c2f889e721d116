#include "partita/device/scratch_file.h"

#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <string>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/mapping_guard.h"
#include "partita/base/printable.h"
#include "partita/device/scalar_type.h"

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

ScratchFile::ScratchFile(const std::filesystem::path& folder, int64_t bytes)
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
    fail("{}: {} of scratch data cannot be mapped: {}", shown, human_bytes(bytes_), io_reason(errno));
  }
  enter_mapping(mapping_, static_cast<size_t>(bytes_), shown + ", scratch data");
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
  std::vector<Event> pieces;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    const int64_t size = std::min(kPiece, bytes - begin);
    auto* from = static_cast<std::byte*>(memory) + begin;
    pieces.push_back(workers_[next_++ % workers_.size()]->submit([this, from, at = offset + begin, size, writes] {
      move(from, at, size, writes);
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
      fail("{}: scratch data: {} of {} at byte {} were {}", printable_line(folder_.string()), moved, left,
           offset + done, what);
    done += moved;
  }
}

}  // namespace partita::internal
