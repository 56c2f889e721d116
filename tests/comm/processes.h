// Starts processes for a test with output redirected to files, and waits for them with a time limit.
//
//   Process rank({PARTITA_RANK_PROGRAM, "hello"}, {{"RANK", "0"}});
//   const Ended ended = rank.wait(20s);
//   EXPECT_EQ(ended.exit_code, 0) << ended.output;
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace partita::internal {

struct Ended {
  int exit_code = -1;  // or -1
  int signal = 0;      // that ended it; SIGALRM stands for the limit
  std::string output;  // standard output and error
};

class Process {
 public:
  // Variables with an empty value are unset.
  Process(std::vector<std::string> command, const std::map<std::string, std::string>& environment) {
    output_ = std::tmpfile();
    std::vector<char*> arguments;
    for (std::string& text : command) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    for (const auto& [name, value] : environment)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    dup2(fileno(output_), STDOUT_FILENO);
    dup2(fileno(output_), STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), output_(std::exchange(other.output_, nullptr)) {}
  Process& operator=(Process&&) = delete;
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (output_ != nullptr) std::fclose(output_);
  }

  void interrupt() const { kill(pid_, SIGINT); }

  [[nodiscard]] std::string output() const {
    std::string text(1 << 16, '\0');
    const ssize_t got = pread(fileno(output_), text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }

  Ended wait(std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return {-1, SIGALRM, output()};
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0, output()};
  }

 private:
  pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
};

}  // namespace partita::internal
