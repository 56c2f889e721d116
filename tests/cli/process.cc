#include "tests/cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace partita::internal::test {

Process::Process(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment)
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

bool Process::until(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!condition()) {
    if (!collect(std::chrono::milliseconds(50))) return condition();
    if (Clock::now() > deadline) return false;
  }
  return true;
}

Result Process::end(std::chrono::seconds limit) {
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

bool Process::collect(std::chrono::milliseconds limit) {
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

std::vector<std::string> command_line(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PARTITA_PROGRAM);
  return arguments;
}

Result partita(std::vector<std::string> arguments, std::chrono::seconds limit) {
  return Process(command_line(std::move(arguments)), {{"OMP_NUM_THREADS", "1"}}).end(limit);
}

}  // namespace partita::internal::test
