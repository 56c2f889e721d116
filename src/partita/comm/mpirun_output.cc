#include "partita/comm/mpirun_output.h"

#include <fmt/format.h>

#include <regex>
#include <utility>

#include "partita/base/status_line.h"

namespace partita::internal {
namespace {

// mpirun puts its banners between two lines of dashes.
constexpr std::string_view kRule = "--------------------------------------------------------------------------\n";
constexpr size_t kLongestBanner = 4096;  // longer text is not a banner, but program output with dashes

// Banners that only say that the job has ended.
constexpr const char* kEndings[] = {"terminated normally, but", "MPI_ABORT was invoked", "noticed that process rank",
                                    "exited with non-zero status", "exiting improperly"};
// Other lines of mpirun: "[host:123] 1 more process has sent help message ...", "mpirun: Forwarding signal 10 to job".
constexpr const char* kSpeakers[] = {"[", "mpirun: "};
constexpr const char* kRemarks[] = {"has sent help message",    "have sent help message", "orte_base_help_aggregate",
                                    "prte_base_help_aggregate", "ORTE_ERROR_LOG",         "Forwarding signal"};

template <size_t N>
bool contains_any(const std::string& text, const char* const (&parts)[N]) {
  for (const char* part : parts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

// Whether the line starts with one of these, or may once it is complete.
template <size_t N>
bool begins_like(std::string_view line, const char* const (&speakers)[N]) {
  for (const std::string_view speaker : speakers)
    if (line.substr(0, speaker.size()) == speaker.substr(0, line.size())) return true;
  return false;
}

bool is_remark(const std::string& line) { return begins_like(line, kSpeakers) && contains_any(line, kRemarks); }

int number(const std::ssub_match& match) { return std::stoi(match.str()); }

std::optional<MpirunOutput::End> end_of(const std::string& banner) {
  static const std::regex signal(R"(process rank (\d{1,9})[^]*exited on\s+signal (\d{1,3}))");
  static const std::regex abort(R"(MPI_ABORT was invoked on rank (\d{1,9})[^]*error\s?code (\d{1,9}))");
  static const std::regex code(R"(Process name: \[.*,(?:\d+\],)?\s*(\d{1,9})\]?\s+Exit code:\s+(\d{1,9}))");
  static const std::regex improper(R"(due to process rank (\d{1,9})[^]*exiting improperly)");
  std::smatch match;
  if (std::regex_search(banner, match, improper)) return MpirunOutput::End{number(match[1]), 0, 0};
  if (std::regex_search(banner, match, signal)) return MpirunOutput::End{number(match[1]), number(match[2]), 0};
  if (std::regex_search(banner, match, abort)) return MpirunOutput::End{number(match[1]), 0, number(match[2])};
  if (std::regex_search(banner, match, code)) return MpirunOutput::End{number(match[1]), 0, number(match[2])};
  return {};
}

std::optional<MpirunOutput::End> end_of_farewell(const std::string& line) {
  static const std::regex farewell(R"(\[partita\] rank (\d{1,9}) ends the job with exit code (\d{1,9})\n)");
  std::smatch match;
  if (!std::regex_match(line, match, farewell)) return {};
  return MpirunOutput::End{number(match[1]), 0, number(match[2])};
}

}  // namespace

std::string MpirunOutput::farewell(int rank, int exit_code) {
  return fmt::format("[partita] rank {} ends the job with exit code {}\n", rank, exit_code);
}

std::string MpirunOutput::pass(std::string_view piece) {
  std::string shown;
  while (!piece.empty()) {
    const size_t end = piece.find('\n') == piece.npos ? piece.size() : piece.find('\n') + 1;
    line_ += piece.substr(0, end);
    piece.remove_prefix(end);
    if (line_.back() == '\n') {
      whole_line(shown);
    } else if (passing_ || (banner_.empty() && !may_be_mpirun())) {
      passing_ = true;
      shown += line_;
      line_.clear();
    }
  }
  return shown;
}

std::string MpirunOutput::rest() {
  std::string shown = std::exchange(banner_, {}) + (is_remark(line_) ? "" : line_);
  line_.clear();
  passing_ = false;
  return shown;
}

bool MpirunOutput::may_be_mpirun() const {
  return begins_like(line_, kSpeakers) || kRule.substr(0, line_.size()) == line_;
}

void MpirunOutput::whole_line(std::string& shown) {
  const std::string line = std::exchange(line_, {});
  if (std::exchange(passing_, false)) {
    shown += line;
  } else if (!banner_.empty()) {
    banner_ += line;
    if (line == kRule) {
      const std::string banner = std::exchange(banner_, {});
      if (!contains_any(banner, kEndings))
        shown += banner;  // the reason why the job could not start: shown to the user
      else if (auto end = end_of(banner); end && !end_)
        end_ = end;
    } else if (banner_.size() > kLongestBanner) {
      shown += std::exchange(banner_, {});
    }
  } else if (line == kRule) {
    banner_ = line;
  } else if (line.starts_with(log::kStatusMark)) {
    status_ = line.substr(log::kStatusMark.size(), line.size() - log::kStatusMark.size() - 1);
  } else if (const auto end = end_of_farewell(line)) {
    if (!end_) end_ = end;
  } else if (!is_remark(line)) {
    shown += line;
  }
}

}  // namespace partita::internal
