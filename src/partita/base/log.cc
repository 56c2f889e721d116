#include "partita/base/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "partita/base/file.h"
#include "partita/base/printable.h"
#include "partita/base/status_line.h"

namespace partita::log {
using namespace internal;
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warn", "error", "off"};

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      break;
  }
  return spdlog::level::off;
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

// stdout and stderr share a terminal: every write removes the status line first and restores it afterwards.
class Terminal {
 public:
  // Returns 0, or errno.
  int write(std::FILE* file, std::string_view text) {
    const std::lock_guard lock(mutex_);
    erase();
    errno = 0;
    const bool arrived = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
    const int error = arrived ? 0 : errno;
    std::clearerr(file);
    draw();
    return error;
  }
  void status(std::string_view line) {
    const std::lock_guard lock(mutex_);
    if (terminal_width() == 0) return;
    if (is_set("PARTITA_STATUS_LINES")) {
      const std::string marked = fmt::format("{}{}\n", kStatusMark, line);
      std::fwrite(marked.data(), 1, marked.size(), stderr);
      return;
    }
    erase();
    status_ = line;
    draw();
  }

 private:
  void erase() {
    if (!status_.empty()) std::fputs("\r\x1b[K", stderr);
  }
  void draw() {
    if (status_.empty()) return;
    std::fwrite(status_.data(), 1, status_.size(), stderr);
    std::fflush(stderr);
  }

  std::mutex mutex_;
  std::string status_;
};

// 80 if the terminal does not tell; 0: not a terminal.
int columns_of(int file) {
  winsize size{};
  if (::isatty(file) == 0 || ::ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col > 0 ? size.ws_col : 80;
}

std::atomic<int> lost_output = 0;  // errno

Terminal& terminal() {
  static Terminal instance;
  return instance;
}

class TerminalSink : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    terminal().write(stderr, {text.data(), text.size()});
  }
  void flush_() override {}
};

struct Logger {
  spdlog::logger logger{"partita", std::make_shared<TerminalSink>()};
  int rank = 0;

  Logger() {
    const char* wanted = std::getenv("PARTITA_LOG");
    const std::optional<Level> level = parse_level(wanted == nullptr ? "info" : wanted);
    logger.set_level(spdlog_level(level.value_or(Level::info)));
    set_pattern("");
    if (!level) logger.warn("PARTITA_LOG={} is unknown: expected debug, info, warn, error or off", wanted);
  }
  // Levels other than info are shown with their name.
  void set_pattern(const std::string& who) {
    class Severity : public spdlog::custom_flag_formatter {
     public:
      void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
        if (message.level == spdlog::level::info) return;
        const auto name = spdlog::level::to_string_view(message.level);
        out.append(name.begin(), name.end());
        out.append(std::string_view(": "));
      }
      [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<Severity>();
      }
    };
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Severity>('*').set_pattern("[%H:%M:%S] " + who + "%*%v");
    logger.set_formatter(std::move(formatter));
  }
};

Logger& instance() {
  static Logger logger;
  return logger;
}

}  // namespace

std::optional<Level> parse_level(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Level>(i);
  return std::nullopt;
}

void configure(int rank, int ranks) {
  instance().rank = rank;
  instance().set_pattern(ranks > 1 && rank != 0 ? fmt::format("[rank {}] ", rank) : "");
}

void set_level(Level level) { instance().logger.set_level(spdlog_level(level)); }

bool enabled(Level level) {
  Logger& logger = instance();
  return (logger.rank == 0 || level >= Level::warn) && logger.logger.should_log(spdlog_level(level));
}

void write(Level level, std::string_view message) {
  instance().logger.log(spdlog_level(level), printable_line(message));
}

void print(std::string_view text) {
  if (instance().rank != 0) return;
  std::string lines = printable(text);
  if (!lines.ends_with('\n')) lines += '\n';
  const int error = terminal().write(is_set("PARTITA_ONE_TERMINAL") ? stderr : stdout, lines);
  if (error != 0 && lost_output.exchange(error) == 0) warn("cannot write to standard output: {}", std::strerror(error));
}

int print_error() { return lost_output; }

void status(std::string_view line) { terminal().status(line); }

int terminal_width() {
  if (const char* told = std::getenv("PARTITA_TERMINAL_WIDTH")) {
    const char* path = std::getenv("PARTITA_TERMINAL");
    const FileDescriptor terminal(path == nullptr ? -1 : ::open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    const int columns = terminal ? columns_of(terminal.get()) : 0;
    return columns > 0 ? std::max(columns - kFreeColumns, 1) : std::atoi(told);
  }
  const char* kind = std::getenv("TERM");
  if (kind != nullptr && std::string_view(kind) == "dumb") return 0;  // it cannot erase lines
  return columns_of(STDERR_FILENO);
}

}  // namespace partita::log
