// Times encoding of files with any tokenizer on one thread, excluding input and output.
//
//   tokenizer_speed TOKENIZER [--lines | --documents BYTES] [--rounds N] FILE...
//
// Prints one JSON line per file: bytes, number and sum of ids, a hash of their sequence, MB/s of CPU time in the first
// round, with empty caches, and the median of the later rounds. --lines: each line is a text; --documents: texts of
// BYTES extended to the next line end; otherwise the whole file is one. N defaults to 9.
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
using internal::MappedFile;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Cut {
  bool lines = false;
  size_t document_bytes = 0;  // 0: none
};

std::vector<std::string_view> texts_of(std::string_view file, const Cut& cut) {
  if (!cut.lines && cut.document_bytes == 0) return {file};
  std::vector<std::string_view> texts;
  while (!cut.lines && !file.empty()) {
    const size_t end = file.size() > cut.document_bytes ? file.find('\n', cut.document_bytes) : std::string_view::npos;
    texts.push_back(file.substr(0, end == std::string_view::npos ? end : end + 1));
    file.remove_prefix(texts.back().size());
  }
  for (size_t begin = 0; begin < file.size();) {
    const size_t end = std::min(file.find('\n', begin), file.size());
    texts.push_back(file.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts;
}

void time_file(const Tokenizer& tokenizer, const std::string& path, const Cut& cut, int rounds) {
  const MappedFile file(path);
  const auto texts = texts_of(file.text(), cut);
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
  uint64_t sum = 0, hash = 0;
  for (const TokenId id : ids) {
    sum += static_cast<uint64_t>(id);
    hash = (hash ^ static_cast<uint64_t>(id)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  const double megabytes = 1e-6 * static_cast<double>(file.size());
  fmt::print(
      "{{\"bytes\": {}, \"ids\": {}, \"sum\": {}, \"hash\": \"{:016x}\", \"first\": {:.1f}, \"median\": {:.1f}}}\n",
      file.size(), ids.size(), sum, hash, megabytes / first, megabytes / seconds[static_cast<size_t>(1 + rounds / 2)]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Cut cut;
    int rounds = 9;
    std::vector<std::string> names;
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      if (argument == "--lines") {
        cut.lines = true;
      } else if (argument == "--documents" && i + 1 < argc) {
        cut.document_bytes = static_cast<size_t>(std::max(1, std::atoi(argv[++i])));
      } else if (argument == "--rounds" && i + 1 < argc) {
        rounds = std::max(1, std::atoi(argv[++i]));
      } else {
        names.emplace_back(argument);
      }
    }
    if (names.size() < 2) fail("tokenizer_speed TOKENIZER [--lines | --documents BYTES] [--rounds N] FILE...");
    const auto tokenizer = load_tokenizer(names[0]);
    for (size_t i = 1; i < names.size(); ++i) time_file(*tokenizer, names[i], cut, rounds);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
