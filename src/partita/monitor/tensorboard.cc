#include "partita/monitor/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <exception>

#include "partita/base/error.h"
#include "partita/base/failure.h"
#include "partita/base/file.h"
#include "partita/base/host.h"
#include "partita/base/log.h"
#include "partita/monitor/crc32c.h"

namespace partita::internal {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <class T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A Protocol Buffers message under construction: each call appends one field.
class Message {
 public:
  Message& varint(int field, uint64_t value) { return key(field, 0).raw_varint(value); }
  Message& fixed64(int field, double value) {
    key(field, 1);
    append_raw(bytes_, value);
    return *this;
  }
  Message& fixed32(int field, float value) {
    key(field, 5);
    append_raw(bytes_, value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    key(field, 2).raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }
  [[nodiscard]] const std::string& text() const { return bytes_; }

 private:
  Message& key(int field, uint64_t wire_type) { return raw_varint((static_cast<uint64_t>(field) << 3) | wire_type); }
  Message& raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  std::string bytes_;
};

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
Message event(double time, int64_t step) { return Message().fixed64(1, time).varint(2, static_cast<uint64_t>(step)); }

// Summary: value = 1.
Message summary(const Message& value) { return Message().message(1, value); }

constexpr size_t kBufferBytes = 1 << 16;

}  // namespace

uint32_t internal::masked_crc32c(std::span<const std::byte> bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8; }

std::string internal::tfrecord(std::string_view data) {
  std::string record;
  append_raw(record, uint64_t{data.size()});
  append_raw(record, masked_crc32c(std::as_bytes(std::span(record))));
  record += data;
  append_raw(record, masked_crc32c(std::as_bytes(std::span(data))));
  return record;
}

TensorBoardWriter::TensorBoardWriter(const fs::path& directory, TensorBoardOptions options) : time_(options.time) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail("cannot create {}: {}", directory.string(), error.message());
  path_ = directory / fmt::format("events.out.tfevents.{}.{}.{}", static_cast<int64_t>(now()), host_name(), ::getpid());
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) fail("cannot write {}: {}", path_.string(), io_reason(errno));
  add(Message().fixed64(1, now()).bytes(3, "brain.Event:2").text());
  if (options.first_step > 0) {
    // SessionLog{status = START}: TensorBoard treats it as a restart at this step.
    add(event(now(), options.first_step).message(7, Message().varint(1, 1)).text());
  }
  flush();
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const std::exception& error) {
    log::warn("{}", failure_text(error));
  }
}

void TensorBoardWriter::scalar(std::string_view tag, double value, int64_t step) {
  // Summary.Value: tag = 1, simple_value = 2.
  const Message scalar = Message().bytes(1, tag).fixed32(2, static_cast<float>(value));
  add(event(now(), step).message(5, summary(scalar)).text());
}

void TensorBoardWriter::text(std::string_view tag, std::string_view markdown, int64_t step) {
  // Summary.Value: tag = 1, tensor = 8, metadata = 9. TensorProto: dtype = 1 (string = 7), tensor_shape = 2,
  // string_val = 8. SummaryMetadata: plugin_data = 1 {plugin_name = 1}.
  const Message one_dimension = Message().message(2, Message().varint(1, 1));
  const Message tensor = Message().varint(1, 7).message(2, one_dimension).bytes(8, markdown);
  const Message metadata = Message().message(1, Message().bytes(1, "text"));
  const Message value = Message().bytes(1, tag).message(8, tensor).message(9, metadata);
  add(event(now(), step).message(5, summary(value)).text());
}

void TensorBoardWriter::add(std::string_view event_bytes) {
  buffer_ += internal::tfrecord(event_bytes);
  if (buffer_.size() >= kBufferBytes) flush();
}

void TensorBoardWriter::flush() {
  while (!buffer_.empty()) {
    const ssize_t n = ::write(file_.get(), buffer_.data(), buffer_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write {}: {}", path_.string(), io_reason(errno));
    buffer_.erase(0, static_cast<size_t>(n));
  }
}

double TensorBoardWriter::now() const {
  if (time_ > 0) return time_;
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace partita::internal
