#include "partita/comm/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/host_cores.h"
#include "partita/base/log.h"
#include "partita/base/status_line.h"
#include "partita/comm/environment.h"
#include "partita/comm/launched_arguments.h"
#include "partita/comm/mpirun_output.h"
#include "partita/comm/restart_rule.h"
#include "partita/comm/screen.h"
#include "partita/comm/shared_memory_folder.h"

namespace partita {
using namespace internal;
namespace {

namespace fs = std::filesystem;

// Maximum number of ranks per machine: the larger of the two.
constexpr int kRanksPerHost = 64, kRanksPerCore = 4;
constexpr int kExitInterrupted = 75;             // the run was interrupted, saved a checkpoint and said so
constexpr int kExitCtrlC = 130;                  // stopped by Ctrl-C, at once
constexpr std::chrono::seconds kOrphansEnd{10};  // ranks end by themselves when mpirun is gone
// One request may arrive as two signals: timeout(1) sends one to the process and one to its group.
constexpr std::chrono::milliseconds kSameRequest{500};

fs::path find_mpirun(const std::string& path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const fs::path candidate = fs::path(path.substr(at, end - at)) / "mpirun";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  fail("mpirun is not on PATH: install Open MPI (Debian: openmpi-bin), or start the ranks by srun or torchrun");
}

int count_hosts(const fs::path& host_file) {
  if (host_file.empty()) return 1;
  std::ifstream file(host_file);
  if (!file) fail("host file {}: {}", host_file.string(), std::strerror(errno));
  int hosts = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos && line[begin] != '#') ++hosts;
  }
  if (hosts == 0) fail("host file {} names no host", host_file.string());
  return hosts;
}

// Delivers signals to this process as bytes in a pipe while ranks run.
class Signals {
 public:
  Signals() {
    if (pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe: {}", std::strerror(errno));
    write_end_ = ends_[1];
    for (size_t i = 0; i < kKinds.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = [](int) {
        const int saved = errno;
        if (write(write_end_, "", 1) < 0) {
        }  // the pipe is full: enough are pending
        errno = saved;
      };
      sigaction(kKinds[i], &action, &before_[i]);
    }
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    for (size_t i = 0; i < kKinds.size(); ++i) sigaction(kKinds[i], &before_[i], nullptr);
    for (int end : ends_) ::close(end);
  }

  [[nodiscard]] int descriptor() const { return ends_[0]; }
  // Number of signals since the last call.
  int take() const {
    char bytes[16];
    return static_cast<int>(std::max<ssize_t>(read(ends_[0], bytes, sizeof bytes), 0));
  }

 private:
  static constexpr std::array kKinds = {SIGINT, SIGTERM, SIGHUP};
  static inline int write_end_ = -1;
  std::array<int, 2> ends_{-1, -1};
  std::array<struct sigaction, kKinds.size()> before_{};
};

// mpirun, with stderr in a pipe, and also stdout if launch() displays it.
struct Child {
  pid_t pid = -1;
  int errors = -1, output = -1;
};

std::vector<std::string> environment_of(const MpirunCall& call) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry), name = text.substr(0, text.find('='));
    if (!call.environment.contains(name) && std::ranges::count(kOuterVariables, name) == 0) environment.push_back(text);
  }
  for (const auto& [name, value] : call.environment) environment.push_back(name + "=" + value);
  return environment;
}

// `held`: descriptors for mpirun to inherit.
Child start(const fs::path& mpirun, const MpirunCall& call, bool take_output, const std::vector<int>& held) {
  const std::vector<std::string> environment = environment_of(call);
  std::vector<char*> arguments, variables;
  arguments.push_back(const_cast<char*>(mpirun.c_str()));
  for (const std::string& text : call.arguments) arguments.push_back(const_cast<char*>(text.c_str()));
  for (const std::string& text : environment) variables.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);

  int errors[2], output[2] = {-1, -1};
  if (pipe2(errors, O_CLOEXEC) != 0 || (take_output && pipe2(output, O_CLOEXEC) != 0))
    fail("pipe: {}", std::strerror(errno));
  const auto broken_pipe = std::signal(SIGPIPE, SIG_IGN);  // a closed reader becomes a write error
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t pid = fork();
  if (pid < 0) fail("fork: {}", std::strerror(errno));
  if (pid == 0) {
    // In its own process group, so that Ctrl-C at the terminal reaches only this process. If this process is killed,
    // mpirun ends too.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(nothing, STDIN_FILENO);
    std::signal(SIGPIPE, broken_pipe);
    if (take_output) dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    for (const int descriptor : held) fcntl(descriptor, F_SETFD, 0);
    execve(mpirun.c_str(), arguments.data(), variables.data());
    _exit(127);
  }
  ::close(errors[1]);
  if (take_output) ::close(output[1]);
  ::close(nothing);
  return {pid, errors[0], output[0]};
}

// Returns 0, or errno.
int write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(to, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
  return 0;
}

// Shows the ranks' output where the user sees it.
class Display {
 public:
  Display(bool terminal, bool one_terminal) : terminal_(terminal), one_terminal_(one_terminal) {}
  void show(const std::string& text, const std::string& status) {
    (void)write_all(STDERR_FILENO, terminal_ ? screen_.show(text, status, log::terminal_width()) : text);
  }
  // For stdout. After a write error nothing more is written, and the ranks continue.
  void show_output(std::string_view text, const std::string& status) {
    if (one_terminal_) return show(std::string(text), status);
    if (lost_ == 0) lost_ = write_all(STDOUT_FILENO, text);
  }
  [[nodiscard]] int lost() const { return lost_; }  // errno

 private:
  bool terminal_, one_terminal_;
  int lost_ = 0;
  Screen screen_;
};

// Forwards output until mpirun ends; returns its wait status.
int supervise(const Child& child, MpirunOutput& output, Display& display, const Signals& signals, int& interrupts) {
  std::array<pollfd, 3> entries{pollfd{child.errors, POLLIN, 0}, pollfd{child.output, POLLIN, 0},
                                pollfd{signals.descriptor(), POLLIN, 0}};
  char bytes[4096];
  std::chrono::steady_clock::time_point last;  // time of the last request
  const auto take = [&](pollfd& entry) -> std::optional<std::string_view> {
    if (entry.revents == 0) return {};
    const ssize_t got = read(entry.fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) return {};
    if (got <= 0) ::close(std::exchange(entry.fd, -1));
    return std::string_view(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  };
  while (entries[0].fd >= 0 || entries[1].fd >= 0) {
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) fail("poll: {}", std::strerror(errno));
    for (int count = signals.take(); count > 0; --count) {
      const auto now = std::chrono::steady_clock::now();
      if (interrupts > 0 && now - last < kSameRequest) continue;
      last = now;
      // mpirun forwards SIGUSR1 to the ranks, where World turns it into SIGINT; on SIGINT it would kill them.
      kill(child.pid, ++interrupts == 1 ? SIGUSR1 : interrupts == 2 ? SIGINT : SIGKILL);
    }
    if (const auto got = take(entries[0])) display.show(output.pass(*got), output.status());
    if (const auto got = take(entries[1])) display.show_output(*got, output.status());
  }
  display.show(output.rest(), "");
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

bool same_terminal() {
  struct stat out {
  }, err{};
  return isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && fstat(STDOUT_FILENO, &out) == 0 &&
         fstat(STDERR_FILENO, &err) == 0 && out.st_rdev == err.st_rdev;
}

// How the ranks have ended.
struct Outcome {
  int code = 0;              // of this program, if there is no message
  std::string message{};     // of an error
  bool interrupted = false;  // by the user
  bool curable = false;      // a new start may end otherwise
  bool killed = false;       // by a signal, not by an error of its own
};

Outcome outcome_of(const MpirunOutput& output, int status, int ranks, int interrupts, const fs::path& mpirun) {
  if (interrupts > 1) return {.message = "the ranks were stopped by a second interrupt", .interrupted = true};
  if (output.end()) {
    const auto& [rank, signal, exit_code] = *output.end();
    // Until a run has installed its own handlers, the stop request ends the process.
    if (interrupts > 0 && (signal == SIGUSR1 || signal == SIGINT))
      return {.message = "stopped by an interrupt before the ranks had begun", .interrupted = true};
    if (signal != 0)
      return {
          .message = fmt::format("rank {} of {} was ended by signal {} ({}), so all ranks were stopped", rank, ranks,
                                 signal, signal == SIGKILL ? "SIGKILL: out of memory, or kill -9" : strsignal(signal)),
          .curable = true,
          .killed = true};
    if (exit_code == 2 || exit_code == kExitInterrupted) return {.code = exit_code};
    if (exit_code == 0)
      return {.message = fmt::format("rank {} of {} ended before the others, so all ranks were stopped", rank, ranks),
              .curable = true};
    return {.message = fmt::format("rank {} of {} failed (exit code {}, see above); all ranks were stopped", rank,
                                   ranks, exit_code),
            .curable = exit_code != kExitCtrlC};
  }
  if (WIFSIGNALED(status))
    return {.message = fmt::format("mpirun was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))),
            .curable = true,
            .killed = true};
  if (WEXITSTATUS(status) == 127) return {.message = fmt::format("{} cannot be run", mpirun.string())};
  return {.message = fmt::format("mpirun ended with exit code {}, see above", WEXITSTATUS(status)), .curable = true};
}

// Starts the ranks, and shows their output until they have ended.
Outcome run_once(const fs::path& mpirun, const MpirunCall& call, int ranks, const LaunchOptions& options,
                 const LaunchMachine& machine, const std::vector<int>& held, const Signals& signals, int& interrupts) {
  MpirunOutput output;
  Display display(machine.terminal_width > 0, machine.one_terminal);
  // Output of the ranks normally bypasses this process, so that a reader that has stopped cannot keep it from seeing
  // Ctrl-C.
  const Child child = start(mpirun, call, machine.one_terminal || options.output_is_needed, held);
  const int status = supervise(child, output, display, signals, interrupts);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return outcome_of(output, status, ranks, interrupts, mpirun);
  if (display.lost() == 0) return {};
  return {.message = fmt::format("cannot write to standard output: {}: make room or give it another place",
                                 std::strerror(display.lost()))};
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  for (pid_t child = 0; file >> child;) found.push_back(child);
  return found;
}

// Waits for what a killed mpirun has left to this process. Ranks see the end of mpirun and end; others are killed.
void wait_for_processes() {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 && errno == ECHILD) return;
    if (ended > 0) continue;
    if (std::chrono::steady_clock::now() - begin > kOrphansEnd)
      for (const pid_t child : children()) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void check_not_launched() {
  const Launch launch = launch_of_this_process();
  if (launch.size > 1)
    fail(
        "launch would start its ranks on each of {} processes: this is rank {} of a job already. Give the command "
        "after -- to that job's launcher, or use launch outside of it",
        launch.size, launch.rank);
}

}  // namespace

MpirunCall mpirun_call(int ranks, const std::string& program, const std::vector<std::string>& command,
                       const LaunchOptions& options, const LaunchMachine& machine) {
  if (ranks < 1) throw UsageError(fmt::format("-n {}: at least one rank is needed", ranks));
  if (options.bind != "none" && options.bind != "core" && options.bind != "socket" && options.bind != "numa")
    throw UsageError(fmt::format("--bind {}: expected none, core, socket or numa", options.bind));
  const int ranks_per_host = (ranks + machine.hosts - 1) / machine.hosts;
  // A typo must not start processes until the machine hangs; Slurm enforces its own limit.
  const int most = std::max(kRanksPerHost, kRanksPerCore * machine.cores);
  if (!machine.slurm && ranks_per_host > most)
    throw UsageError(
        fmt::format("-n {}: at most {} ranks are started on each machine, and this one has {} cores: lower "
                    "-n, or list more hosts in --host-file",
                    ranks, most, machine.cores));

  MpirunCall call;
  call.arguments = {"-n", std::to_string(ranks)};
  const auto add = [&](std::initializer_list<std::string> more) { call.arguments.insert(call.arguments.end(), more); };
  if (!options.host_file.empty()) add({"--hostfile", options.host_file.string()});
  // On a single machine, as many ranks as requested; declared slots are respected.
  if (options.host_file.empty() && !machine.slurm) add({"--oversubscribe"});
  // mpirun's default for one or two ranks would bind each rank, with all its threads, to a single core.
  if (options.bind == "core") add({"--map-by", fmt::format("slot:PE={}", std::max(1, machine.cores / ranks_per_host))});
  add({"--bind-to", options.bind});
  call.environment[MpirunOutput::kVariable] = "1";
  // Ranks write to pipes and cannot query the terminal.
  if (machine.terminal_width > 0) {
    call.environment["PARTITA_TERMINAL_WIDTH"] =
        std::to_string(std::max(machine.terminal_width - log::kFreeColumns, 1));
    if (!machine.terminal.empty()) call.environment["PARTITA_TERMINAL"] = machine.terminal;
    call.environment["PARTITA_STATUS_LINES"] = "1";
  }
  if (machine.one_terminal) call.environment["PARTITA_ONE_TERMINAL"] = "1";
  if (!machine.memory_folder.empty()) call.environment[kMemoryFolder] = machine.memory_folder;
  for (const auto& [name, value] : call.environment) add({"-x", name.c_str()});  // for other hosts too
  for (const std::string& variable : machine.variables) add({"-x", variable});
  if (machine.root) {
    call.environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    call.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  if (!machine.shared_memory.empty())
    for (const char* transport : {"vader", "sm"})  // Open MPI 4, 5
      call.environment[fmt::format("OMPI_MCA_btl_{}_backing_directory", transport)] = machine.shared_memory;
  add({program});
  const std::vector<std::string> passed = to_launched(command);
  call.arguments.insert(call.arguments.end(), passed.begin(), passed.end());
  return call;
}

int launch(int ranks, const std::vector<std::string>& command, const LaunchOptions& options) {
  check_not_launched();
  const Lookup environment = process_environment();
  LaunchMachine machine{.cores = static_cast<int>(host_cores().cores.size()),
                        .hosts = count_hosts(options.host_file),
                        .root = geteuid() == 0,
                        .slurm = environment("SLURM_JOB_ID").has_value(),
                        .variables = {},
                        .terminal_width = log::terminal_width(),
                        .one_terminal = same_terminal()};
  for (const char* variable : kForwarded)
    if (environment(variable)) machine.variables.emplace_back(variable);
  // Only if all ranks are on this machine: other hosts have neither these folders nor this terminal.
  const bool one_machine = options.host_file.empty() && !machine.slurm;
  std::optional<SharedMemoryFolder> memory;
  if (one_machine && options.restarts > 0) machine.memory_folder = memory.emplace("/dev/shm").path();
  if (const char* terminal = one_machine ? ttyname(STDERR_FILENO) : nullptr) machine.terminal = terminal;
  const fs::path mpirun = find_mpirun(environment("PATH").value_or("/usr/bin:/bin"));
  // Ranks whose mpirun was killed become children of this process, which waits for them.
  if (options.restarts > 0) prctl(PR_SET_CHILD_SUBREAPER, 1);

  int interrupts = 0;
  const Signals signals;
  std::vector<StartEnd> ends;
  for (;;) {
    std::optional<SharedMemoryFolder> shared_memory;  // a new one each time: killed ranks leave segments behind
    if (one_machine) machine.shared_memory = shared_memory.emplace("/dev/shm").path();
    const MpirunCall call = mpirun_call(ranks, fs::read_symlink("/proc/self/exe"), command, options, machine);
    std::vector<int> held;
    for (const auto* folder : {&memory, &shared_memory})
      if (*folder && (*folder)->descriptor() >= 0) held.push_back((*folder)->descriptor());
    const Outcome outcome = run_once(mpirun, call, ranks, options, machine, held, signals, interrupts);
    if (outcome.message.empty()) return outcome.code;
    if (options.restarts > 0) wait_for_processes();
    if (outcome.interrupted) throw Interrupted(outcome.message);
    if (!outcome.curable) throw Error(outcome.message);
    ends.push_back({.killed = outcome.killed, .steps = steps_reached(machine.memory_folder)});
    const RestartDecision next =
        decide_restart(ends, options.restarts, options.reports_steps && !machine.memory_folder.empty());
    interrupts += signals.take();  // while nothing ran
    if (!next.restarts || interrupts > 0)
      fail("{}{}", outcome.message, next.reason.empty() ? "" : "; not started again: " + next.reason);
    log::warn("{}: restart {} of {}", outcome.message, ends.size(), options.restarts);
  }
}

}  // namespace partita
