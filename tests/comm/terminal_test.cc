// Terminal output of `launch`, through a pseudo-terminal: log lines of all ranks above a single progress bar.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// As much of a terminal as the bar needs: carriage return, line feed, "erase to the end of the line".
class ScreenImage {
 public:
  void take(char c) {
    escape_ += c;
    if (escape_[0] == '\x1b') {
      if (escape_.size() < 3) return;
      if (escape_ == "\x1b[K") row().resize(std::min(column_, row().size()));
    } else if (c == '\r') {
      column_ = 0;
    } else if (c == '\n') {
      rows_.emplace_back();
    } else {
      row().resize(std::max(row().size(), column_ + 1), ' ');
      row()[column_++] = c;
    }
    escape_.clear();
  }
  [[nodiscard]] const std::vector<std::string>& rows() const { return rows_; }

 private:
  std::string& row() { return rows_.back(); }
  std::vector<std::string> rows_{1};
  size_t column_ = 0;
  std::string escape_;
};

struct Shown {
  std::vector<std::string> rows;
  std::vector<std::string> mixed;  // rows that held a bar and something else at any time
  size_t bars = 0;                 // how many bars were drawn
  std::string all;                 // every byte
  int exit_code = -1;
};

constexpr unsigned short kColumns = 40;

struct Terminal {
  unsigned short columns = kColumns, later = 0;  // later: another size, once a bar is seen
  std::string kind = "xterm";
};

// Runs a command on a terminal; presses Ctrl-C once `interrupt_at` is seen.
Shown on_terminal(std::vector<std::string> command, const std::string& interrupt_at = "", Terminal kind = {}) {
  winsize size{.ws_row = 24, .ws_col = kind.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "RANK", "WORLD_SIZE", "PARTITA_LOG"})
      unsetenv(name);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("TERM", kind.kind.c_str(), 1);
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  Shown shown;
  ScreenImage image;
  std::string all;
  bool pressed = interrupt_at.empty();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < until) {
    pollfd entry{terminal, POLLIN, 0};
    if (poll(&entry, 1, 100) <= 0) continue;
    char bytes[512];
    const ssize_t got = read(terminal, bytes, sizeof bytes);
    if (got <= 0) break;  // the last one that had it open is gone
    for (ssize_t i = 0; i < got; ++i) {
      image.take(bytes[i]);
      const std::string& row = image.rows().back();
      const bool bar = row.find('%') != row.npos, line = row.find("says") != row.npos;
      if (bar && line && (shown.mixed.empty() || shown.mixed.back() != row)) shown.mixed.push_back(row);
      if (kind.columns > 0 && row.size() >= std::max(kind.columns, kind.later) && bar)
        shown.mixed.push_back("too wide: " + row);
      if (bytes[i] == '%') ++shown.bars;
    }
    if (kind.later > 0 && shown.bars > 0) {
      size.ws_col = kind.later;
      ioctl(terminal, TIOCSWINSZ, &size);
    }
    all.append(bytes, static_cast<size_t>(got));
    if (!pressed && all.find(interrupt_at) != all.npos) pressed = write(terminal, "\x03", 1) == 1;
  }
  kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  close(terminal);
  shown.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  shown.rows = image.rows();
  shown.all = all;
  return shown;
}

int64_t count(const std::vector<std::string>& rows, const std::string& part) {
  return std::ranges::count_if(rows, [&](const std::string& row) { return row.find(part) != row.npos; });
}

TEST(Terminal, LogLinesAreAboveTheBar) {
  const Shown shown = on_terminal({PARTITA_RANK_PROGRAM, "launch", "2", "bar", "60"});
  EXPECT_EQ(shown.exit_code, 0) << testing::PrintToString(shown.rows);
  EXPECT_THAT(shown.mixed, testing::IsEmpty());
  EXPECT_GT(shown.bars, 20U);
  EXPECT_EQ(count(shown.rows, "%"), 0) << "no bar is left: " << testing::PrintToString(shown.rows);
  EXPECT_EQ(count(shown.rows, "rank 0 says iteration"), 20);  // standard output
  EXPECT_EQ(count(shown.rows, "rank 0 says saved"), 10);      // standard error
  EXPECT_EQ(count(shown.rows, "rank 1 says slow"), 10);
  EXPECT_EQ(count(shown.rows, "status:"), 0);
  // In order, although they went through different streams.
  std::vector<std::string> zero;
  for (const std::string& row : shown.rows)
    if (row.find("rank 0 says") != row.npos) zero.push_back(row.substr(row.rfind(' ') + 1));
  EXPECT_TRUE(std::ranges::is_sorted(zero, {}, [](const std::string& n) { return std::stoi(n); }))
      << testing::PrintToString(zero);
}

TEST(Terminal, ABarIsCutBetweenItsFields) {
  const Shown narrow = on_terminal({PARTITA_RANK_PROGRAM, "launch", "2", "bar", "60"});
  EXPECT_THAT(narrow.all, AllOf(HasSubstr("]  38 columns\r"), Not(HasSubstr("of a"))));
  // A terminal that does not know its size is taken for one of 80 columns.
  const Shown unknown = on_terminal({PARTITA_RANK_PROGRAM, "launch", "2", "bar", "60"}, "", {.columns = 0});
  EXPECT_THAT(unknown.all, HasSubstr("]  78 columns  of a bar that is wider than the screen\r"));
}

TEST(Terminal, AChangedSizeIsFollowed) {
  const Shown shown =
      on_terminal({PARTITA_RANK_PROGRAM, "launch", "2", "bar", "60", "forever"}, "58 columns", {.later = 60});
  EXPECT_EQ(shown.exit_code, 0) << testing::PrintToString(shown.rows);
  EXPECT_THAT(shown.all, AllOf(HasSubstr("38 columns"), HasSubstr("58 columns")));
  EXPECT_THAT(shown.mixed, testing::IsEmpty());
}

TEST(Terminal, ADumbOneGetsNoEscapeCodes) {
  const Shown shown = on_terminal({PARTITA_RANK_PROGRAM, "launch", "2", "bar", "60"}, "", {.kind = "dumb"});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.all, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("% ["))));
  EXPECT_EQ(count(shown.rows, "rank 0 says saved"), 10);
}

TEST(Terminal, CtrlCLeavesNoRemarkOfMpirun) {
  const Shown shown = on_terminal({PARTITA_RANK_PROGRAM, "launch", "2", "bar", "60", "forever"}, "says saved 60");
  EXPECT_EQ(shown.exit_code, 0) << testing::PrintToString(shown.rows);
  EXPECT_THAT(shown.mixed, testing::IsEmpty());
  EXPECT_EQ(count(shown.rows, "signal"), 0) << testing::PrintToString(shown.rows);
  EXPECT_EQ(count(shown.rows, "orwarding"), 0);
  EXPECT_EQ(count(shown.rows, "says goodbye"), 2) << testing::PrintToString(shown.rows);
}

}  // namespace
}  // namespace partita::internal
