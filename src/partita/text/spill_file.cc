#include "partita/text/spill_file.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "partita/base/error.h"

namespace partita::internal {

SpillFile::SpillFile(std::filesystem::path directory) : directory_(std::move(directory)) {
  std::string name = (directory_ / ".partita-XXXXXX").string();
  file_ = FileDescriptor(::mkstemp(name.data()));
  if (!file_) fail("cannot write to {}: {}", directory_.string(), io_reason(errno));
  ::unlink(name.c_str());
}

void SpillFile::flush() {
  for (std::span<const std::byte> rest = buffer_; !rest.empty();) {
    const ssize_t n = ::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write to {}: {}", directory_.string(), io_reason(errno));
    rest = rest.subspan(static_cast<size_t>(n));
    written_ += n;
  }
  buffer_.clear();
}

void SpillFile::read_back(const std::function<void(std::span<const std::byte>)>& use) {
  flush();
  buffer_.resize(kBuffer);
  for (int64_t at = 0; at < written_;) {
    size_t filled = 0;
    const auto wanted = static_cast<size_t>(std::min<int64_t>(kBuffer, written_ - at));
    while (filled < wanted) {
      const ssize_t n =
          ::pread(file_.get(), buffer_.data() + filled, wanted - filled, at + static_cast<int64_t>(filled));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        fail("cannot read back from {}: {}", directory_.string(), n == 0 ? std::string("cut short") : io_reason(errno));
      filled += static_cast<size_t>(n);
    }
    use(std::span(buffer_).first(filled));
    at += static_cast<int64_t>(filled);
  }
  buffer_.clear();
}

}  // namespace partita::internal
