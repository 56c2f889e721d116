// Runs the program like a user and captures its output.
//
//   const Result r = partita({"train", config, "--train.steps=0"});
//   EXPECT_EQ(r.code, 1);
//   EXPECT_THAT(r.error, HasSubstr("at least 1"));
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <thread>
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
  Process(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment = {})
      : start_(Clock::now()) {
    std::array<int, 2> out{}, err{};
    if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> arguments;
      for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    descriptors_ = {out[0], err[0]};
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!ended_) end(std::chrono::seconds(0));
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const Result& seen() const { return result_; }

  // Collects output until `condition` holds or the process has ended; false: neither in time.
  bool until(const std::function<bool()>& condition, std::chrono::seconds limit) {
    const auto deadline = Clock::now() + limit;
    while (!condition()) {
      if (!collect(std::chrono::milliseconds(50))) return condition();
      if (Clock::now() > deadline) return false;
    }
    return true;
  }

  // Waits for the end; kills what takes longer, with everything it started in its group.
  Result end(std::chrono::seconds limit) {
    const auto deadline = Clock::now() + limit;
    bool killed = false;
    while (collect(std::chrono::milliseconds(50))) {
      if (killed || Clock::now() < deadline) continue;
      killed = true;
      kill(-pid_, SIGKILL);
      kill(pid_, SIGKILL);
      break;
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    for (int d : descriptors_) close(d);
    result_.code = killed ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return result_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // false: both streams are at their end.
  bool collect(std::chrono::milliseconds limit) {
    std::array<pollfd, 2> entries{};
    for (size_t i = 0; i < 2; ++i) entries[i] = {open_[i] ? descriptors_[i] : -1, POLLIN, 0};
    if (!open_[0] && !open_[1]) return false;
    poll(entries.data(), 2, static_cast<int>(limit.count()));
    for (size_t i = 0; i < 2; ++i) {
      if (entries[i].revents == 0) continue;
      std::array<char, 4096> bytes{};
      const ssize_t got = read(descriptors_[i], bytes.data(), bytes.size());
      if (got <= 0)
        open_[i] = false;
      else
        (i == 0 ? result_.output : result_.error).append(bytes.data(), static_cast<size_t>(got));
    }
    return open_[0] || open_[1];
  }

  Clock::time_point start_;
  pid_t pid_ = -1;
  std::array<int, 2> descriptors_{};
  std::array<bool, 2> open_{true, true};
  bool ended_ = false;
  Result result_;
};

inline std::vector<std::string> command_line(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PARTITA_PROGRAM);
  return arguments;
}

// `partita ARGUMENTS`, to its end. One thread a rank, so that tests do not fight for the cores.
inline Result partita(std::vector<std::string> arguments, std::chrono::seconds limit = std::chrono::seconds(120)) {
  return Process(command_line(std::move(arguments)), {{"OMP_NUM_THREADS", "1"}}).end(limit);
}

}  // namespace partita::internal::test
