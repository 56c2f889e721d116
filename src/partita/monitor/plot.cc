#include "partita/monitor/plot.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/monitor/metrics_file.h"

namespace partita::internal {
namespace fs = std::filesystem;
namespace {

// Rejects names that the terminal or gnuplot would misinterpret.
void check_name(const fs::path& path) {
  for (const char c : path.string())
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      fail("the name of a folder or file has a control character (code {}): rename it", static_cast<int>(c));
}

PlotRun read_run(const fs::path& folder) {
  check_name(folder);
  const fs::path steps = folder / "metrics.jsonl", evals = folder / "validation.jsonl";
  if (!fs::exists(steps) && !fs::exists(evals))
    fail("{} has no metrics.jsonl: give the folder of a run", folder.string());
  PlotRun run{.name = folder.string(), .steps = {}, .evals = {}};
  while (run.name.size() > 1 && run.name.ends_with('/')) run.name.pop_back();
  if (fs::exists(steps)) run.steps = read_steps(steps);
  if (fs::exists(evals)) run.evals = read_evals(evals);
  if (run.steps.empty() && run.evals.empty()) fail("{} has no steps yet", steps.string());
  const auto finite = [](const auto& m) { return std::isfinite(m.loss); };
  if (std::ranges::none_of(run.steps, finite) && std::ranges::none_of(run.evals, finite))
    fail("{}: no loss is a finite number, so there is nothing to draw", folder.string());
  return run;
}

// The first lines of gnuplot's error output, joined into one.
std::string one_line(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, 300)) {
    if (c != '\n') {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

constexpr int kNotFound = 127;  // exit code of the child if the program cannot be started

// Runs gnuplot without a shell. Returns its output and exit code (-1: killed by a signal).
std::pair<std::string, int> gnuplot(const fs::path& script) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot start gnuplot: {}", std::strerror(errno));
  const FileDescriptor out(ends[0]);
  FileDescriptor in(ends[1]);
  const std::string file = fs::absolute(script).string();  // absolute, so never mistaken for an option
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start gnuplot: {}", std::strerror(errno));
  if (child == 0) {
    ::dup2(in.get(), STDOUT_FILENO);
    ::dup2(in.get(), STDERR_FILENO);
    ::execlp("gnuplot", "gnuplot", file.c_str(), nullptr);
    ::_exit(kNotFound);
  }
  in = FileDescriptor();
  std::string said;
  std::array<char, 512> buffer{};
  for (;;) {
    const ssize_t n = ::read(out.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    said.append(buffer.data(), static_cast<size_t>(n));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {said, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

// Whether the file has a valid end: gnuplot does not report a full disk.
bool is_whole(const fs::path& picture) {
  if (!fs::exists(picture)) return false;
  const std::string text = read_file(picture);
  return picture.extension() == ".svg"
             ? text.find("</svg>") != std::string::npos
             : text.find("IEND", text.size() - std::min<size_t>(text.size(), 12)) != std::string::npos;
}

// A folder for unfinished files, removed on destruction.
struct Unfinished {
  fs::path path;
  explicit Unfinished(fs::path folder) : path(std::move(folder)) {
    std::error_code error;
    fs::remove_all(path, error);
    fs::create_directories(path, error);
    if (error) fail("cannot create {}: {}", path.string(), error.message());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

fs::path output_of(std::span<const fs::path> runs, const LossPlotOptions& options) {
  if (!options.output.empty()) return options.output;
  if (runs.size() == 1) return runs[0] / "loss";
  return (runs[0].filename().empty() ? runs[0].parent_path() : runs[0]).parent_path() / "loss";
}

}  // namespace

LossPlot plot_losses(std::span<const fs::path> runs, const LossPlotOptions& options) {
  std::vector<PlotRun> read;
  for (const fs::path& run : runs) read.push_back(read_run(run));
  const fs::path output = output_of(runs, options);
  check_name(output);
  if (output.filename().empty()) fail("{} is a folder: give a file name without extension", output.string());
  const std::string name = output.filename().string();
  const fs::path folder = output.parent_path();
  const auto place = [](const fs::path& where, const std::string& file) {
    return LossPlot{.svg = where / (file + ".svg"), .png = where / (file + ".png"), .script = where / (file + ".gp")};
  };
  const std::string title = read.size() == 1 ? "Loss of " + read[0].name : "Loss";
  const std::string script = loss_script(read, options.content, title, name);

  const Unfinished unfinished(folder / fmt::format(".{}.{}.partial", name, ::getpid()));
  const LossPlot drawn = place(unfinished.path, name), plot = place(folder, name);
  write_file(drawn.script, script);
  const auto [said, code] = gnuplot(drawn.script);
  if (code == kNotFound) {
    fs::rename(drawn.script, plot.script);
    fail("gnuplot, which draws the picture, is not installed (Debian: apt install gnuplot-nox); {} is ready for it",
         plot.script.string());
  }
  if (code != 0) fail("gnuplot could not draw {}: {}", plot.svg.string(), one_line(said));
  for (const fs::path& picture : {drawn.svg, drawn.png})
    if (!is_whole(picture))
      fail("gnuplot wrote only a part of {}: is the disk full? {}", (folder / picture.filename()).string(),
           one_line(said));
  fs::rename(drawn.svg, plot.svg);
  fs::rename(drawn.png, plot.png);
  fs::rename(drawn.script, plot.script);
  return plot;
}

}  // namespace partita::internal
