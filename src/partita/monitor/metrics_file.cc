#include "partita/monitor/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "partita/base/json.h"
#include "partita/base/log.h"

namespace partita::internal {
namespace fs = std::filesystem;
namespace {

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

// Calls visit(line number, text) for each complete line.
template <class Visit>
void for_each_line(std::string_view content, Visit visit) {
  int64_t line_number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = content.find('\n', begin);
    if (end == std::string_view::npos) return;
    visit(++line_number, content.substr(begin, end - begin));
    begin = end + 1;
  }
}

nlohmann::json parse_line(const fs::path& path, int64_t number, std::string_view line) {
  auto json = try_parse_json(line);
  if (!json || !json->is_object())
    fail("{}:{}: expected a JSON object, found '{}'", path.string(), number, line.substr(0, 60));
  return *std::move(json);
}

class Reader {
 public:
  Reader(const fs::path& path, int64_t line, const nlohmann::json& json) : path_(path), line_(line), json_(json) {}

  [[nodiscard]] int64_t integer(const char* key) const {
    const auto at = json_.find(key);
    if (at == json_.end() || !at->is_number_integer())
      fail("{}:{}: expected an integer '{}'", path_.string(), line_, key);
    return at->get<int64_t>();
  }
  [[nodiscard]] int64_t integer_or(const char* key, int64_t absent) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? absent : integer(key);
  }
  [[nodiscard]] double real(const char* key) const {
    const auto at = json_.find(key);
    if (at != json_.end() && at->is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (at == json_.end() || !at->is_number()) fail("{}:{}: expected a number '{}'", path_.string(), line_, key);
    return at->get<double>();
  }
  void check_whole() const {
    for (const char* key : {"loss", "seconds"}) (void)real(key);
    for (const char* key : {"step", "consumed_samples", "tokens"}) (void)integer(key);
  }

 private:
  const fs::path& path_;
  int64_t line_;
  const nlohmann::json& json_;
};

// Applies figures_of to each line; lines without figures are skipped.
template <class Figures, class FiguresOf>
std::vector<Figures> read_figures(const fs::path& path, FiguresOf figures_of) {
  std::vector<Figures> all;
  int64_t unreadable = 0;
  std::string first;  // first problem, with file and line
  for_each_line(read_file(path), [&](int64_t number, std::string_view line) {
    try {
      const nlohmann::json json = parse_line(path, number, line);
      all.push_back(figures_of(Reader(path, number, json)));
    } catch (const Error& error) {
      if (++unreadable == 1) first = error.what();
    }
  });
  if (unreadable > 0)
    log::warn("{} unreadable line{} of {} {} left out; the first: {}", unreadable, unreadable == 1 ? "" : "s",
              path.filename().string(), unreadable == 1 ? "was" : "were", first);
  return all;
}

}  // namespace

std::string to_json(const StepMetrics& s) {
  return fmt::format(
      R"({{"step":{},"consumed_samples":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},"tokens_per_second":{},)"
      R"("seconds":{},"loss_scale":{},"skipped_steps":{},"nan_steps":{},"memory_peak":{}}})",
      s.step, s.consumed_samples, number(s.loss), number(s.grad_norm), number(s.learning_rate), s.tokens,
      number(s.tokens_per_second()), number(s.seconds), number(s.loss_scale), s.skipped_steps, s.nan_steps,
      s.memory_peak > 0 ? std::to_string(s.memory_peak) : "null");
}

std::string to_json(const EvalMetrics& e) {
  return fmt::format(R"({{"step":{},"consumed_samples":{},"loss":{},"perplexity":{},"tokens":{},"seconds":{}}})",
                     e.step, e.consumed_samples, number(e.loss), number(e.perplexity()), e.tokens, number(e.seconds));
}

MetricsFile::MetricsFile(fs::path path, int64_t resumed_step) : path_(std::move(path)) {
  if (fs::exists(path_)) {
    const std::string content = read_file(path_);
    std::string kept, damaged;
    int64_t count = 0, first_damaged = 0;  // damaged lines
    for_each_line(content, [&](int64_t number, std::string_view line) {
      try {
        const nlohmann::json json = parse_line(path_, number, line);
        const Reader r(path_, number, json);
        r.check_whole();
        if (r.integer("step") <= resumed_step) kept.append(line) += '\n';
      } catch (const Error&) {
        if (++count == 1) first_damaged = number;
        damaged.append(line) += '\n';
      }
    });
    if (!damaged.empty()) {
      fs::path aside = path_;
      aside += ".damaged";
      write_file(aside, (fs::exists(aside) ? read_file(aside) : std::string()) + damaged);
      log::warn("{}: {} unreadable line{} moved to {}; the first was line {}", path_.string(), count,
                count == 1 ? " was" : "s were", aside.string(), first_damaged);
    }
    if (kept.size() != content.size()) write_file(path_, kept);
  }
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) fail("cannot write {}: {}", path_.string(), io_reason(errno));
}

void MetricsFile::append(const std::string& json) {
  const std::string line = json + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write {}: {}", path_.string(), io_reason(errno));
    rest.remove_prefix(static_cast<size_t>(n));
  }
}

void MetricsFile::sync() {
  if (::fsync(file_.get()) != 0 && errno != EINVAL) fail("cannot write {}: {}", path_.string(), io_reason(errno));
}

std::vector<StepMetrics> read_steps(const fs::path& path) {
  return read_figures<StepMetrics>(path, [](const Reader& r) {
    return StepMetrics{.step = r.integer("step"),
                       .consumed_samples = r.integer("consumed_samples"),
                       .loss = r.real("loss"),
                       .grad_norm = r.real("grad_norm"),
                       .learning_rate = r.real("lr"),
                       .seconds = r.real("seconds"),
                       .tokens = r.integer("tokens"),
                       .loss_scale = r.real("loss_scale"),
                       .skipped_steps = r.integer("skipped_steps"),
                       .nan_steps = r.integer("nan_steps"),
                       .memory_peak = r.integer_or("memory_peak", 0)};
  });
}

std::vector<EvalMetrics> read_evals(const fs::path& path) {
  return read_figures<EvalMetrics>(path, [](const Reader& r) {
    return EvalMetrics{.step = r.integer("step"),
                       .consumed_samples = r.integer("consumed_samples"),
                       .loss = r.real("loss"),
                       .tokens = r.integer("tokens"),
                       .seconds = r.real("seconds")};
  });
}

}  // namespace partita::internal
