#include "partita/comm/mpi_transport.h"

#include <mpi.h>

#include <unistd.h>
#include <algorithm>
#include <list>
#include <thread>
#include <vector>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// MPI counts bytes in an int.
constexpr size_t kMostBytes = size_t{1} << 30;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("{}: {}", what, std::string_view(text, static_cast<size_t>(length)));
}

// The requests of one message: several if it is longer than kMostBytes, posted in order with one tag.
class MpiTransfer final : public Transfer {
 public:
  // `from`: a receive, whose length is checked against the expected one.
  explicit MpiTransfer(std::optional<int> from) : from_(from) {}

  template <class Post>
  void post(size_t bytes, Post part) {
    size_t at = 0;
    do {
      const size_t length = std::min(bytes - at, kMostBytes);
      part(at, static_cast<int>(length), &parts_.emplace_back(Part{MPI_REQUEST_NULL, length}).request);
      at += length;
    } while (at < bytes);
  }

  [[nodiscard]] bool test() override {
    for (; done_ < parts_.size(); ++done_) {
      Part& part = parts_[done_];
      int complete = 0;
      MPI_Status status;
      const int code = MPI_Test(&part.request, &complete, &status);
      if (code != MPI_SUCCESS) {
        int kind = 0;
        MPI_Error_class(code, &kind);
        if (kind == MPI_ERR_TRUNCATE && from_) wrong_length("more than", part.bytes);
        check(code, "MPI_Test");
      }
      if (complete == 0) return false;
      if (from_) {
        int bytes = 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (static_cast<size_t>(bytes) != part.bytes) wrong_length(fmt::format("{} instead of", bytes), part.bytes);
      }
    }
    return true;
  }

 private:
  struct Part {
    MPI_Request request;
    size_t bytes;
  };

  [[noreturn]] void wrong_length(const std::string& found, size_t expected) const {
    fail("rank {} sent {} {} bytes: the ranks differ in the order or the sizes of their calls", *from_, found,
         expected);
  }

  std::vector<Part> parts_;
  size_t done_ = 0;
  std::optional<int> from_;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int initialised = 0, level = 0;
    MPI_Initialized(&initialised);
    if (initialised != 0) fail("MPI was already started in this process: connect once");
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &data_), "MPI_Comm_dup");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &letters_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(letters_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(data_, &rank_);
    MPI_Comm_size(data_, &size_);
    int* bound = nullptr;
    int known = 0;
    MPI_Comm_get_attr(data_, MPI_TAG_UB, static_cast<void*>(&bound), &known);
    channels_ = static_cast<uint32_t>(known != 0 ? *bound : 32767) >> Tag::kMessageBits;
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  [[nodiscard]] std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(std::nullopt);
    transfer->post(bytes.size(), [&](size_t at, int length, MPI_Request* request) {
      check(MPI_Isend(bytes.data() + at, length, MPI_BYTE, to, mpi_tag(tag), data_, request), "MPI_Isend");
    });
    return transfer;
  }

  [[nodiscard]] std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(from);
    transfer->post(bytes.size(), [&](size_t at, int length, MPI_Request* request) {
      check(MPI_Irecv(bytes.data() + at, length, MPI_BYTE, from, mpi_tag(tag), data_, request), "MPI_Irecv");
    });
    return transfer;
  }

  void progress() override {}  // MPI_Test of any transfer drives them all
  void idle(std::chrono::microseconds pause) override { std::this_thread::sleep_for(pause); }

  void post(int to, std::string text) override {
    std::erase_if(posted_, [](Posted& letter) {
      int complete = 0;
      return MPI_Test(&letter.request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && complete != 0;
    });
    Posted& letter = posted_.emplace_back(Posted{std::move(text), MPI_REQUEST_NULL});
    letter.text.resize(std::min(letter.text.size(), kMostLetterBytes));
    check(
        MPI_Isend(letter.text.data(), static_cast<int>(letter.text.size()), MPI_BYTE, to, 0, letters_, &letter.request),
        "MPI_Isend");
  }

  [[nodiscard]] std::optional<Letter> poll() override {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, 0, letters_, &there, &status), "MPI_Iprobe");
    if (there == 0) return {};
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    Letter letter{status.MPI_SOURCE, std::string(static_cast<size_t>(bytes), '\0')};
    check(MPI_Recv(letter.text.data(), bytes, MPI_BYTE, letter.from, 0, letters_, MPI_STATUS_IGNORE), "MPI_Recv");
    return letter;
  }

  void close() override { MPI_Finalize(); }

  [[noreturn]] void abort(int exit_code, const std::string&) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
  }

 private:
  struct Posted {
    std::string text;
    MPI_Request request;
  };

  [[nodiscard]] int mpi_tag(Tag tag) const {
    if (tag.channel >= channels_)
      fail("two ranks share more than {} groups: this MPI library has no tags for more; reuse groups", channels_);
    return static_cast<int>(tag.channel << Tag::kMessageBits | tag.message);
  }

  MPI_Comm data_ = MPI_COMM_NULL, letters_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  uint32_t channels_ = 0;
  std::list<Posted> posted_;  // a list, since MPI holds the addresses of the texts
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport() { return std::make_unique<MpiTransport>(); }

}  // namespace partita::internal
