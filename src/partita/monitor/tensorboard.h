// TensorBoard event files: scalars and text, written without TensorFlow.
//
//   TensorBoardWriter writer(run / "tensorboard", {.first_step = resumed + 1});
//   writer.scalar("train/loss", 3.21, step);
//   writer.text("config", toml, 0);
//   writer.flush();
//
// A file is a sequence of TFRecord records: 8-byte length, masked CRC-32C of the length, the bytes of an Event, masked
// CRC-32C of the bytes; all little-endian. An Event is a Protocol Buffers message (tensorflow/core/util/event.proto,
// framework/summary.proto); the few fields used here are encoded by hand.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "partita/base/file.h"

namespace partita::internal {

struct TensorBoardOptions {
  int64_t first_step =
      0;            // if > 0, TensorBoard discards entries for this and later steps from the folder's earlier files
  double time = 0;  // seconds since 1970, for the file's name and its events; 0: the current time
};

class TensorBoardWriter {
 public:
  // Creates DIRECTORY/events.out.tfevents.<time>.<host>.<pid>.
  explicit TensorBoardWriter(const std::filesystem::path& directory, TensorBoardOptions options = {});
  // Flushes; an error at this point is only logged.
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  void scalar(std::string_view tag, double value, int64_t step);
  // Markdown.
  void text(std::string_view tag, std::string_view markdown, int64_t step);
  void flush();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void add(std::string_view event);
  [[nodiscard]] double now() const;

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string buffer_;
  double time_ = 0;
};

namespace internal {
// Frames one event as a record.
[[nodiscard]] std::string tfrecord(std::string_view data);
// CRCs are stored rotated and offset, because the CRC of data that contains its own CRC is degenerate.
[[nodiscard]] uint32_t masked_crc32c(std::span<const std::byte> bytes);
}  // namespace internal

}  // namespace partita::internal
