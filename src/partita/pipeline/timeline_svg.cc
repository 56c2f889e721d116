#include "partita/pipeline/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

namespace partita::internal {
namespace {

constexpr double kLeft = 60, kRight = 16, kRow = 26, kGap = 6, kDigit = 6.2;  // pixels; kDigit: width at size 10
constexpr const char* kText = "#7d838c";  // contrast of 3.8 or more on white and black

struct Color {
  int red, green, blue;
};

struct Kind {
  const char* name;
  Color color;
};
// Indexed by ActionKind.
constexpr std::array<Kind, 4> kKinds = {{{"forward", {46, 98, 176}},
                                         {"backward", {31, 128, 96}},
                                         {"input gradient", {178, 84, 36}},
                                         {"weight gradient", {122, 82, 150}}}};

// From full color in the first chunk to half way to white in the last.
std::string fill(const Kind& kind, int chunk, int chunks) {
  const double light = chunks > 1 ? 0.5 * chunk / (chunks - 1) : 0;
  const auto mixed = [&](int value) { return static_cast<int>(std::lround(value + (255 - value) * light)); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(kind.color.red), mixed(kind.color.green), mixed(kind.color.blue));
}

const char* text_on(int chunk, int chunks) { return chunks > 1 && 2 * chunk >= chunks ? "#101418" : "#ffffff"; }

const Kind& kind_of(const PipelineAction& action) { return kKinds[static_cast<size_t>(action.kind)]; }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) >= ' ')  // XML has no control characters
      out += c;
  }
  return out;
}

// 1, 2 or 5 times a power of ten: about ten ticks.
double tick_distance(double makespan) {
  const double power = std::pow(10, std::floor(std::log10(makespan / 10)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (makespan / (factor * power) <= 12) return factor * power;
  return 10 * power;
}

double width_for_numbers(const Timeline& timeline) {
  double needed = 0;
  for (const auto& spans : timeline.ranks)
    for (const Timeline::Span& span : spans)
      if (span.end > span.start) {
        const auto digits = static_cast<double>(std::to_string(span.action.micro_batch).size());
        needed = std::max(needed, (digits * kDigit + 8) / (span.end - span.start));
      }
  return std::clamp(needed * timeline.makespan, 600.0, 3000.0);
}

class Drawing {
 public:
  Drawing(const Timeline& timeline, int chunks, const SvgOptions& options)
      : timeline_(timeline),
        chunks_(chunks),
        width_(options.width > 0 ? options.width : width_for_numbers(timeline)),
        scale_(timeline.makespan > 0 ? width_ / timeline.makespan : 0) {
    if (!options.title.empty()) {
      text(kLeft, 18, "start", 13, kText, escaped(options.title));
      top_ += 24;
    }
  }

  std::string take() {
    legend();
    for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank) row(rank);
    axis();
    const double width = kLeft + width_ + kRight;
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"system-ui, sans-serif\">\n{2}</svg>\n",
        width, top_, body_);
  }

 private:
  void rectangle(double x, double y, double width, double height, const std::string& color) {
    fmt::format_to(std::back_inserter(body_),
                   "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y, width,
                   height, color);
  }

  void text(double x, double y, const char* anchor, int size, const char* color, const std::string& content) {
    fmt::format_to(std::back_inserter(body_),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x, y,
                   anchor, size, color, content);
  }

  // The kinds that occur, with the colors of all chunks.
  void legend() {
    std::array<bool, kKinds.size()> used{};
    for (const auto& spans : timeline_.ranks)
      for (const Timeline::Span& span : spans) used[static_cast<size_t>(span.action.kind)] = true;
    double x = kLeft;
    for (size_t k = 0; k < kKinds.size(); ++k) {
      if (!used[k]) continue;
      for (int chunk = 0; chunk < chunks_; ++chunk, x += 13)
        rectangle(x, top_ + 4, 12, 12, fill(kKinds[k], chunk, chunks_));
      text(x + 4, top_ + 14, "start", 11, kText, kKinds[k].name);
      x += 8 + 6.5 * static_cast<double>(std::char_traits<char>::length(kKinds[k].name)) + 14;
    }
    text(x, top_ + 14, "start", 11, kText,
         fmt::format("{}bubble {:.1f}%", chunks_ > 1 ? "lighter: later stages of the rank \xC2\xB7 " : "",
                     100 * timeline_.bubble));
    top_ += 26;
  }

  void row(size_t rank) {
    text(kLeft - 8, top_ + kRow / 2 + 4, "end", 11, kText, fmt::format("rank {}", rank));
    fmt::format_to(std::back_inserter(body_),
                   "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"#808080\" "
                   "fill-opacity=\"0.15\"/>\n",
                   kLeft, top_, width_, kRow);
    bool second = false;  // of a pair
    for (const Timeline::Span& span : timeline_.ranks[rank]) {
      const bool pair = second || span.action.with_next;
      action(span, top_ + (second ? kRow / 2 : 0), pair ? kRow / 2 : kRow);
      second = span.action.with_next;
    }
    top_ += kRow + kGap;
  }

  void action(const Timeline::Span& span, double y, double height) {
    const double x = kLeft + span.start * scale_, width = (span.end - span.start) * scale_;
    // Half a pixel between neighbors.
    rectangle(x, y, std::max(width - 0.5, 0.0), height, fill(kind_of(span.action), span.action.chunk, chunks_));
    const std::string number = std::to_string(span.action.micro_batch);
    if (static_cast<double>(number.size()) * kDigit + 2 <= width)
      text(x + width / 2, y + height / 2 + 3.5, "middle", 10, text_on(span.action.chunk, chunks_), number);
  }

  void axis() {
    rectangle(kLeft, top_, width_, 1, kText);
    if (timeline_.makespan > 0) {
      const double distance = tick_distance(timeline_.makespan);
      for (int i = 0; i * distance <= timeline_.makespan * (1 + 1e-9); ++i) {
        const double x = kLeft + i * distance * scale_;
        rectangle(x, top_, 1, 5, kText);
        text(x, top_ + 17, "middle", 10, kText, fmt::format("{:.6g}", i * distance));
      }
    }
    top_ += 26;
  }

  const Timeline& timeline_;
  int chunks_;
  double width_, scale_;
  double top_ = 8;  // of what is drawn next
  std::string body_;
};

}  // namespace

std::string timeline_svg(const Timeline& timeline, int chunks, const SvgOptions& options) {
  return Drawing(timeline, chunks, options).take();
}

std::string stacked_svg(const std::vector<std::string>& images) {
  const auto size = [](const std::string& image, std::string_view name) {
    const std::string key = fmt::format(" {}=\"", name);
    return std::stod(image.substr(image.find(key) + key.size()));
  };
  double width = 0, height = 0;
  std::string body;
  for (const std::string& image : images) {
    body += fmt::format("<svg y=\"{:.0f}\"", height) + image.substr(image.find(' '));
    width = std::max(width, size(image, "width"));
    height += size(image, "height");
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n{2}</svg>\n",
      width, height, body);
}

}  // namespace partita::internal
