// Reads a source on its own thread, a bounded distance ahead of the consumer. Can be destroyed at any time, even while
// the thread waits for a pipe.
//
//   ReadAhead ahead(open_bytes("corpus.jsonl.zst"));
//   while (const auto block = ahead.next()) use(block->bytes);
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "partita/text/byte_source.h"

namespace partita::internal {

class ReadAhead {
 public:
  static constexpr size_t kBlock = size_t{1} << 20;
  static constexpr size_t kMostBlocks = 32;  // maximum number of waiting blocks

  struct Block {
    std::string bytes;     // never empty
    int64_t consumed = 0;  // ByteSource::consumed() after this block
  };

  explicit ReadAhead(std::unique_ptr<ByteSource> source) : source_(std::move(source)), thread_([this] { read(); }) {}
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    room_.notify_all();
    source_->interrupt();
  }

  // Empty at the end. Error: the source's, after the blocks that precede it.
  [[nodiscard]] std::optional<Block> next() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !blocks_.empty() || ended_; });
    if (blocks_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    Block block = std::move(blocks_.front());
    blocks_.pop_front();
    room_.notify_one();
    return block;
  }

 private:
  void read() {
    try {
      for (;;) {
        Block block{std::string(kBlock, '\0'), 0};
        size_t filled = 0;
        while (filled < kBlock) {
          const size_t n = source_->read(std::span(block.bytes).subspan(filled));
          if (n == 0) break;
          filled += n;
        }
        if (filled == 0) break;
        block.bytes.resize(filled);
        block.consumed = source_->consumed();
        std::unique_lock lock(mutex_);
        room_.wait(lock, [this] { return stop_ || blocks_.size() < kMostBlocks; });
        if (stop_) return;
        blocks_.push_back(std::move(block));
        ready_.notify_one();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ready_.notify_one();
  }

  std::unique_ptr<ByteSource> source_;
  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::deque<Block> blocks_;
  std::exception_ptr error_;
  bool ended_ = false, stop_ = false;
  std::jthread thread_;  // last member: it uses all of the above
};

}  // namespace partita::internal
