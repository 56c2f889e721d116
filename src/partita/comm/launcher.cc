#include "partita/comm/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/comm/environment.h"
#include "partita/comm/mpirun_output.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

constexpr int kExitInterrupted = 75;  // of a run that saved and can be continued; it has said so

fs::path find_mpirun(const std::string& path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const fs::path candidate = fs::path(path.substr(at, end - at)) / "mpirun";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  fail("mpirun is not on PATH: install Open MPI (Debian: openmpi-bin), or start the ranks by srun or torchrun");
}

int count_hosts(const std::string& host_file) {
  if (host_file.empty()) return 1;
  std::ifstream file(host_file);
  if (!file) fail("host file {}: {}", host_file, std::strerror(errno));
  int hosts = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos && line[begin] != '#') ++hosts;
  }
  if (hosts == 0) fail("host file {} names no host", host_file);
  return hosts;
}

int available_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Signals to this process while ranks run, as bytes in a pipe.
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
        }  // the pipe is full: enough were sent
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
  // How many have come since the last call.
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

// mpirun, with its standard error in a pipe.
struct Child {
  pid_t pid = -1;
  int errors = -1;
};

Child start(const fs::path& mpirun, const MpirunCall& call) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!call.environment.contains(std::string(text.substr(0, text.find('='))))) environment.emplace_back(text);
  }
  for (const auto& [name, value] : call.environment) environment.push_back(name + "=" + value);
  std::vector<char*> arguments, variables;
  arguments.push_back(const_cast<char*>(mpirun.c_str()));
  for (const std::string& text : call.arguments) arguments.push_back(const_cast<char*>(text.c_str()));
  for (const std::string& text : environment) variables.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);

  int errors[2];
  if (pipe2(errors, O_CLOEXEC) != 0) fail("pipe: {}", std::strerror(errno));
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t pid = fork();
  if (pid < 0) fail("fork: {}", std::strerror(errno));
  if (pid == 0) {
    // A group of its own: Ctrl-C at the terminal comes to us alone. If we are killed, it ends too.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(nothing, STDIN_FILENO);
    dup2(errors[1], STDERR_FILENO);
    execve(mpirun.c_str(), arguments.data(), variables.data());
    _exit(127);
  }
  ::close(errors[1]);
  ::close(nothing);
  return {pid, errors[0]};
}

void show(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(STDERR_FILENO, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR) return;
    at += static_cast<size_t>(std::max<ssize_t>(written, 0));
  }
}

// Passes output on until mpirun ends; its wait status.
int supervise(const Child& child, MpirunOutput& output, const Signals& signals, int& interrupts) {
  std::array<pollfd, 2> entries{pollfd{child.errors, POLLIN, 0}, pollfd{signals.descriptor(), POLLIN, 0}};
  while (true) {
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) fail("poll: {}", std::strerror(errno));
    for (int count = signals.take(); count > 0; --count) {
      // mpirun hands SIGUSR1 to the ranks, where World turns it into SIGINT; SIGINT it would answer by killing them.
      kill(child.pid, ++interrupts == 1 ? SIGUSR1 : interrupts == 2 ? SIGINT : SIGKILL);
    }
    if (entries[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t got = read(child.errors, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    show(output.pass({bytes, static_cast<size_t>(got)}));
  }
  show(output.rest());
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::close(child.errors);
  return status;
}

}  // namespace

MpirunCall mpirun_call(int ranks, const std::string& program, const std::vector<std::string>& command,
                       const LaunchOptions& options, const LaunchMachine& machine) {
  if (ranks < 1) throw UsageError(fmt::format("-n {}: at least one rank is needed", ranks));
  if (options.bind != "none" && options.bind != "core" && options.bind != "socket" && options.bind != "numa")
    throw UsageError(fmt::format("--bind {}: expected none, core, socket or numa", options.bind));
  const int ranks_per_host = (ranks + machine.hosts - 1) / machine.hosts;
  const int threads = std::max(1, machine.cores / ranks_per_host);

  MpirunCall call;
  call.arguments = {"-n", std::to_string(ranks)};
  const auto add = [&](std::initializer_list<std::string> more) { call.arguments.insert(call.arguments.end(), more); };
  if (!options.host_file.empty()) add({"--hostfile", options.host_file});
  // On one machine as many ranks as the user asks for; where slots are declared they count.
  if (options.host_file.empty() && !machine.slurm) add({"--oversubscribe"});
  // By default mpirun would bind one or two ranks to a core each, and with it all of their threads.
  if (options.bind == "core") add({"--map-by", fmt::format("slot:PE={}", threads)});
  add({"--bind-to", options.bind});
  if (!machine.threads_set) call.environment["OMP_NUM_THREADS"] = std::to_string(threads);
  add({"-x", "OMP_NUM_THREADS"});  // to other hosts too
  if (machine.root) {
    call.environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    call.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  add({program});
  call.arguments.insert(call.arguments.end(), command.begin(), command.end());
  return call;
}

int launch(int ranks, const std::vector<std::string>& command, const LaunchOptions& options) {
  const Lookup environment = process_environment();
  const LaunchMachine machine{.cores = available_cores(),
                              .hosts = count_hosts(options.host_file),
                              .root = geteuid() == 0,
                              .slurm = environment("SLURM_JOB_ID").has_value(),
                              .threads_set = environment("OMP_NUM_THREADS").has_value()};
  const std::string program = fs::read_symlink("/proc/self/exe");
  MpirunCall call = mpirun_call(ranks, program, command, options, machine);
  call.environment[MpirunOutput::kVariable] = "1";
  // The ranks write into pipes and cannot see the terminal behind them.
  if (const int width = log::terminal_width(); width > 0)
    call.environment["PARTITA_TERMINAL_WIDTH"] = std::to_string(width);
  const fs::path mpirun = find_mpirun(environment("PATH").value_or("/usr/bin:/bin"));

  MpirunOutput output;
  int interrupts = 0;
  const Signals signals;
  const int status = supervise(start(mpirun, call), output, signals, interrupts);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  if (interrupts > 1) throw Interrupted("the ranks were stopped by a second interrupt");
  if (output.end()) {
    const auto& [rank, signal, exit_code] = *output.end();
    // Before a run has its own handlers, the request to stop ends the process.
    if (interrupts > 0 && (signal == SIGUSR1 || signal == SIGINT))
      throw Interrupted("stopped by an interrupt before the ranks had begun");
    if (signal != 0)
      fail("rank {} of {} was ended by signal {} ({}{}), so all ranks were stopped", rank, ranks, signal,
           strsignal(signal), signal == SIGKILL ? ": out of memory, or somebody's kill -9" : "");
    if (exit_code == 2 || exit_code == kExitInterrupted) return exit_code;
    fail("rank {} of {} ended with exit code {}, so all ranks were stopped: its message stands above", rank, ranks,
         exit_code);
  }
  if (WIFSIGNALED(status)) fail("mpirun was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) == 127) fail("{} cannot be run", mpirun.string());
  fail("mpirun ended with exit code {}: its message stands above", WEXITSTATUS(status));
}

}  // namespace partita
