// How fast one thread encodes a file with any tokenizer, in MB of text a second of its own CPU time.
//
//   build/bench/tokenizer_benchmark tokenizer.json corpus.txt            # documents of 4 KB, three passes
//   build/bench/tokenizer_benchmark tokenizer.json corpus.txt 0 5        # the file as one document, five passes
//
// Prints a line of JSON: "cold" is the first pass of a new encoder, "warm" the median of the others, which find their
// words in its memory; "ids" and "sum" tell whether another tokenizer found the same ids. bench/tokenizer_speed.py runs
// it beside others.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Cut behind the first line end that is `bytes` from the beginning; 0: the text as it is.
std::vector<std::string_view> documents_of(std::string_view text, size_t bytes) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const size_t line_end = bytes == 0 || text.size() <= bytes ? std::string_view::npos : text.find('\n', bytes);
    const size_t size = line_end == std::string_view::npos ? text.size() : line_end + 1;
    documents.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return documents;
}

void run(const std::string& tokenizer_path, const std::string& file, size_t document_bytes, int passes) {
  const auto tokenizer = load_tokenizer(tokenizer_path);
  const std::string text = read_file(file);
  const auto documents = documents_of(text, document_bytes);
  const auto encoder = tokenizer->make_encoder();
  std::vector<double> rates;
  std::vector<TokenId> ids;
  size_t count = 0;
  uint64_t sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const double start = cpu_seconds();
    count = 0;
    for (const std::string_view document : documents) {
      ids.clear();
      encoder->encode(document, ids);
      count += ids.size();
      if (pass == 0) {
        for (const TokenId id : ids) sum += static_cast<uint64_t>(id);
      }
    }
    rates.push_back(1e-6 * static_cast<double>(text.size()) / (cpu_seconds() - start));
  }
  std::vector<double> warm(rates.begin() + (passes > 1 ? 1 : 0), rates.end());
  std::sort(warm.begin(), warm.end());
  fmt::print("{{\"megabytes\": {:.3f}, \"cold\": {:.1f}, \"warm\": {:.1f}, \"ids\": {}, \"sum\": {}}}\n",
             1e-6 * static_cast<double>(text.size()), rates[0], warm[warm.size() / 2], count, sum);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    fmt::print(stderr, "tokenizer_benchmark TOKENIZER FILE [DOCUMENT_BYTES [PASSES]]\n");
    return 2;
  }
  try {
    const auto document_bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 4096;
    partita::run(argv[1], argv[2], document_bytes, argc > 4 ? std::max(1, std::atoi(argv[4])) : 3);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tokenizer_benchmark: {}\n", error.what());
    return 1;
  }
}
