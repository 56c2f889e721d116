#include "cli/text_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/duration.h"
#include "partita/base/log.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr double kSecondsOnTerminal = 0.2, kSeconds = 10;

std::string line_of(const std::string& verb, const TokenizeProgress& progress) {
  const double megabytes = 1e-6 * static_cast<double>(progress.bytes);
  if (!progress.total_bytes)
    return fmt::format("{} {} documents, {:.1f} MB, {:.1f} MB/s", verb, progress.documents, megabytes,
                       progress.megabytes_per_second());
  const double total = 1e-6 * static_cast<double>(*progress.total_bytes);
  return fmt::format("{} {} documents, {:.1f} of {:.1f} MB ({:.0f} %), {:.1f} MB/s, {} left", verb, progress.documents,
                     megabytes, total, 100 * megabytes / total, progress.megabytes_per_second(),
                     human_duration(progress.seconds_left()));
}

// Truncates the line between two figures.
std::string fitting(const std::string& line, size_t most) {
  if (line.size() <= most) return line;
  return line.substr(0, std::min(line.rfind(", ", most), most));
}

}  // namespace

TextProgress::TextProgress(std::string verb)
    : verb_(std::move(verb)), next_(log::terminal_width() > 0 ? 0 : kSeconds) {}

TextProgress::~TextProgress() { log::status(""); }

void TextProgress::operator()(const TokenizeProgress& progress) {
  if (progress.seconds >= next_) show(progress.seconds, line_of(verb_, progress));
}

void TextProgress::show(double seconds, const std::string& line) {
  if (seconds < next_) return;
  const int width = log::terminal_width();
  next_ = seconds + (width > 0 ? kSecondsOnTerminal : kSeconds);
  if (width > 0)
    log::status(fitting(line, static_cast<size_t>(width - 1)));
  else
    log::info("{}", line);
}

}  // namespace partita::cli
