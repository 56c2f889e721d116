#include "partita/interop/model_tokenizer.h"

#include "partita/base/error.h"

namespace partita {
using namespace internal;

std::unique_ptr<Tokenizer> load_tokenizer_of(const ModelSource& source, const std::filesystem::path& chosen) {
  const std::filesystem::path path = chosen.empty() ? source.tokenizer : chosen;
  if (path.empty())
    fail("no tokenizer.json, tokenizer.model or vocab.json next to {}: name a tokenizer with --tokenizer",
         source.path.string());
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(path);
  if (tokenizer->vocab_size() > source.model.vocab_size)
    fail("{} has {} tokens, the model of {} knows {}: use the tokenizer it was trained with", path.string(),
         tokenizer->vocab_size(), source.path.string(), source.model.vocab_size);
  return tokenizer;
}

}  // namespace partita
