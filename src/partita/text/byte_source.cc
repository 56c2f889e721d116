#include "partita/text/byte_source.h"

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/foreign_format.h"

namespace partita::internal {
namespace {

constexpr size_t kInput = size_t{1} << 18;

constexpr std::string_view kStandardInputName = "standard input";
constexpr std::string_view kGzip = "\x1F\x8B", kZstd = "\x28\xB5\x2F\xFD";

// A frame that zstd ignores: pzstd uses it to store the size of the next frame.
bool is_skippable_frame(std::string_view head) {
  return head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xF0) == 0x50 &&
         head.substr(1, 3) == "\x2A\x4D\x18";
}

// A file descriptor with lookahead, whose reads can be interrupted by another thread.
class File {
 public:
  explicit File(const std::filesystem::path& path)
      : name_(input_name(path)),
        file_(is_standard_input(path) ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
        interrupt_(::eventfd(0, EFD_CLOEXEC)) {
    if (!file_ || !interrupt_) fail("cannot read {}: {}", name_, io_reason(errno));
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int64_t consumed() const { return taken_ - static_cast<int64_t>(waiting().size()); }
  // Bytes read but not yet taken.
  [[nodiscard]] std::string_view waiting() const { return std::string_view(buffer_).substr(at_, end_ - at_); }
  void take(size_t bytes) { at_ += bytes; }

  void interrupt() { ::eventfd_write(interrupt_.get(), 1); }

  // Reads until `bytes` are waiting; returns false if the file ends first.
  bool fill(size_t bytes) {
    if (at_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
      end_ -= at_;
      at_ = 0;
    }
    while (end_ < bytes) {
      const size_t n = read_some(std::span(buffer_).subspan(end_));
      if (n == 0) return false;
      end_ += n;
    }
    return true;
  }

  // Returns waiting bytes first, then reads directly from the file.
  size_t read(std::span<char> out) {
    const std::string_view there = waiting().substr(0, out.size());
    if (there.empty()) return read_some(out);
    std::copy(there.begin(), there.end(), out.begin());
    take(there.size());
    return there.size();
  }

 private:
  size_t read_some(std::span<char> out) {
    for (;;) {
      std::array<pollfd, 2> either = {{{file_.get(), POLLIN, 0}, {interrupt_.get(), POLLIN, 0}}};
      if (::poll(either.data(), either.size(), -1) < 0 && errno != EINTR && errno != EAGAIN)
        fail("cannot read {}: {}", name_, io_reason(errno));
      if (either[1].revents != 0) fail("{} is not read to its end", name_);
      if (either[0].revents == 0) continue;
      const ssize_t n = ::read(file_.get(), out.data(), out.size());
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n < 0) fail("cannot read {}: {}", name_, io_reason(errno));
      taken_ += n;
      return static_cast<size_t>(n);
    }
  }

  std::string name_;
  FileDescriptor file_, interrupt_;
  std::string buffer_ = std::string(kInput, '\0');
  size_t at_ = 0, end_ = 0;
  int64_t taken_ = 0;
};

class PlainBytes : public ByteSource {
 public:
  explicit PlainBytes(File file) : file_(std::move(file)) {}
  size_t read(std::span<char> out) override { return file_.read(out); }
  int64_t consumed() const override { return file_.consumed(); }
  void interrupt() override { file_.interrupt(); }

 private:
  File file_;
};

class GzipBytes : public ByteSource {
 public:
  explicit GzipBytes(File file) : file_(std::move(file)), state_(std::make_unique<inflate_state>()) { begin_member(); }

  size_t read(std::span<char> out) override {
    state_->next_out = reinterpret_cast<uint8_t*>(out.data());
    state_->avail_out = static_cast<uint32_t>(std::min<size_t>(out.size(), UINT32_MAX));
    const uint32_t wanted = state_->avail_out;
    while (state_->avail_out == wanted) {
      if (state_->block_state == ISAL_BLOCK_FINISH && !next_member()) return 0;
      // zlib buffers internally: it may still produce output after the end of the input.
      const bool more = !file_.waiting().empty() || file_.fill(1);
      state_->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(file_.waiting().data()));
      state_->avail_in = static_cast<uint32_t>(file_.waiting().size());
      const uint32_t before = state_->avail_in;
      const int status = isal_inflate(state_.get());
      file_.take(before - state_->avail_in);
      if (status < 0) fail("{}: damaged gzip data near byte {}", file_.name(), file_.consumed());
      if (!more && state_->avail_out == wanted && state_->block_state != ISAL_BLOCK_FINISH)
        fail("{}: gzip data that is cut short at byte {}", file_.name(), file_.consumed());
    }
    return wanted - state_->avail_out;
  }
  int64_t consumed() const override { return file_.consumed(); }
  void interrupt() override { file_.interrupt(); }

 private:
  void begin_member() {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
  }

  // Returns false at the end of the file, which may follow zeros, as tapes are padded with.
  bool next_member() {
    while (file_.fill(1)) {
      if (file_.waiting()[0] == '\0') {
        file_.take(1);
        continue;
      }
      if (!file_.fill(kGzip.size()) || !file_.waiting().starts_with(kGzip))
        fail("{}: something else follows the gzip data at byte {}", file_.name(), file_.consumed());
      const uint32_t room = state_->avail_out;
      uint8_t* const out = state_->next_out;
      begin_member();
      state_->next_out = out;
      state_->avail_out = room;
      return true;
    }
    return false;
  }

  File file_;
  std::unique_ptr<inflate_state> state_;
};

class ZstdBytes : public ByteSource {
 public:
  explicit ZstdBytes(File file) : file_(std::move(file)), stream_(ZSTD_createDStream()) {
    PARTITA_CHECK(stream_ != nullptr, "no memory for zstd");
    // Accepts windows of `zstd --long=31`.
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, 31);
  }

  size_t read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      const bool more = !file_.waiting().empty() || file_.fill(1);
      if (!more && !inside_) return 0;
      ZSTD_inBuffer from{file_.waiting().data(), file_.waiting().size(), 0};
      const size_t left = ZSTD_decompressStream(stream_.get(), &to, &from);
      file_.take(from.pos);
      if (ZSTD_isError(left))
        fail("{}: damaged zstd data near byte {}: {}", file_.name(), file_.consumed(), ZSTD_getErrorName(left));
      inside_ = left != 0;
      if (!more && inside_ && to.pos == 0)
        fail("{}: zstd data that is cut short at byte {}", file_.name(), file_.consumed());
    }
    return to.pos;
  }
  int64_t consumed() const override { return file_.consumed(); }
  void interrupt() override { file_.interrupt(); }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  File file_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool inside_ = false;  // within an unfinished frame
};

}  // namespace

std::string input_name(const std::filesystem::path& file) {
  return is_standard_input(file) ? std::string(kStandardInputName) : file.string();
}

Compression compression_of(std::string_view head, std::string_view name) {
  if (head.starts_with(kGzip)) return Compression::gzip;
  if (head.starts_with(kZstd) || is_skippable_frame(head)) return Compression::zstd;
  refuse_foreign_format(head, name);
  return Compression::none;
}

void refuse_foreign_format(std::string_view head, std::string_view name) {
  constexpr std::string_view kExpected = "text or JSON lines, plain or compressed by gzip or zstd";
  if (const auto found = foreign_format(head))
    fail("{}",
         name == kStandardInputName ? describe(*found, name, kExpected, "FILE") : describe(*found, name, kExpected));
}

Compression compression_of(const std::filesystem::path& file) {
  const FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kForeignFormatBytes> head{};
  const ssize_t n = descriptor ? ::pread(descriptor.get(), head.data(), head.size(), 0) : -1;
  if (n < 0) fail("cannot read {}: {}", file.string(), io_reason(errno));
  return compression_of(std::string_view(head.data(), static_cast<size_t>(n)), file.string());
}

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path) {
  File file(path);
  (void)file.fill(4);  // no more: a pipe may withhold further bytes; formats are recognized from what has arrived
  switch (compression_of(file.waiting(), file.name())) {
    case Compression::gzip:
      return std::make_unique<GzipBytes>(std::move(file));
    case Compression::zstd:
      return std::make_unique<ZstdBytes>(std::move(file));
    case Compression::none:
      break;
  }
  return std::make_unique<PlainBytes>(std::move(file));
}

}  // namespace partita::internal
