// Times the encoding of files with any tokenizer, on one thread, beside nothing else: no reading, no output.
//
//   tokenizer_speed TOKENIZER [--lines] [--rounds N] FILE...
//
// A JSON line a file: bytes, ids, MB/s of processor time in the first round, in which the encoder has seen nothing yet,
// and the median of those after it. --lines: each line is a text, otherwise the file is. Median of N rounds (9).
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/tokenizer/tokenizer.h"

namespace {

using namespace partita;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<std::string_view> texts_of(std::string_view file, bool lines) {
  if (!lines) return {file};
  std::vector<std::string_view> texts;
  for (size_t begin = 0; begin < file.size();) {
    const size_t end = std::min(file.find('\n', begin), file.size());
    texts.push_back(file.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts;
}

void time_file(const Tokenizer& tokenizer, const std::string& path, bool lines, int rounds) {
  const MappedFile file(path);
  const auto texts = texts_of(file.text(), lines);
  const auto encoder = tokenizer.make_encoder();
  std::vector<TokenId> ids;
  ids.reserve(file.text().size());
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    ids.clear();
    const double begin = processor_seconds();
    for (const std::string_view text : texts) encoder->encode(text, ids);
    seconds.push_back(processor_seconds() - begin);
  }
  const double first = seconds[0];
  std::nth_element(seconds.begin() + 1, seconds.begin() + 1 + rounds / 2, seconds.end());
  const double megabytes = 1e-6 * static_cast<double>(file.size());
  fmt::print("{{\"bytes\": {}, \"ids\": {}, \"first\": {:.1f}, \"median\": {:.1f}}}\n", file.size(), ids.size(),
             megabytes / first, megabytes / seconds[static_cast<size_t>(1 + rounds / 2)]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bool lines = false;
    int rounds = 9;
    std::vector<std::string> names;
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      if (argument == "--lines") {
        lines = true;
      } else if (argument == "--rounds" && i + 1 < argc) {
        rounds = std::max(1, std::atoi(argv[++i]));
      } else {
        names.emplace_back(argument);
      }
    }
    if (names.size() < 2) fail("tokenizer_speed TOKENIZER [--lines] [--rounds N] FILE...");
    const auto tokenizer = load_tokenizer(names[0]);
    for (size_t i = 1; i < names.size(); ++i) time_file(*tokenizer, names[i], lines, rounds);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
