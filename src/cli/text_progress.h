// Progress of reading text: on a terminal a status line updated several times per second; otherwise a line every ten
// seconds.
//
//   TextProgress progress("tokenized");
//   tokenize_corpus(options, *tokenizer, std::ref(progress));  // "tokenized 30 documents, 12.0 of 48.0 MB (25 %), ..."
#pragma once
#include <string>

#include "partita/data/tokenize_corpus.h"

namespace partita::cli {
class TextProgress {
 public:
  explicit TextProgress(std::string verb);
  TextProgress(const TextProgress&) = delete;
  TextProgress& operator=(const TextProgress&) = delete;
  ~TextProgress();
  void operator()(const TokenizeProgress& progress);
  // Shows another kind of line at the same rate.
  void show(double seconds, const std::string& line);

 private:
  std::string verb_;
  double next_;
};

}  // namespace partita::cli
