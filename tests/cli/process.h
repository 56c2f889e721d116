// Runs the program like a user and captures its output.
//
//   const Result r = partita({"train", config, "--train.steps=0"});
//   EXPECT_EQ(r.code, 1);
//   EXPECT_THAT(r.error, HasSubstr("at least 1"));
#pragma once
#include <sys/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace partita::internal::test {

struct Result {
  int code = -1;       // exit code; 128 + signal; -1: did not end in time and was killed
  std::string output;  // stdout
  std::string error;   // stderr
  double seconds = 0;
};

// A process whose output is collected while the test looks at it.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!ended_) end(std::chrono::seconds(0));
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const Result& seen() const { return result_; }

  // Collects output until `condition` holds or the process has ended; false: neither in time.
  bool until(const std::function<bool()>& condition, std::chrono::seconds limit);

  // Waits for the end; kills what takes longer, with everything it started in its group.
  Result end(std::chrono::seconds limit);

 private:
  using Clock = std::chrono::steady_clock;

  // false: both streams are at their end.
  bool collect(std::chrono::milliseconds limit);

  Clock::time_point start_;
  pid_t pid_ = -1;
  std::array<int, 2> descriptors_{};
  std::array<bool, 2> open_{true, true};
  bool ended_ = false;
  Result result_;
};

// `partita ARGUMENTS`, as a command.
std::vector<std::string> command_line(std::vector<std::string> arguments);

// `partita ARGUMENTS`, to its end. One thread a rank, so that tests do not fight for the cores.
Result partita(std::vector<std::string> arguments, std::chrono::seconds limit = std::chrono::seconds(120));

}  // namespace partita::internal::test
