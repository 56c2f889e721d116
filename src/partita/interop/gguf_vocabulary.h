// A tokenizer as the metadata of a GGUF file: tokens, their types, merges or scores, special tokens. Pure.
//
//   const GgufVocabulary vocabulary = gguf_vocabulary(tokenizer.get(), {.eos = {0}}, model.vocab_size);
//   for (const std::string& warning : vocabulary.warnings) log::warn("{}", warning);
//
// llama.cpp has code of its own for each way of splitting a text in front of BPE, which a file chooses by name:
// "gpt-2", "llama-bpe", ... A tokenizer that llama.cpp would apply in another way gives a warning; one that it does not
// have at all is left out, so that the model takes and gives ids alone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/interop/gguf_format.h"
#include "partita/tokenizer/split/splitter.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

// llama.cpp's types of tokens, with their numbers in the format.
enum class GgufTokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct GgufSpecialIds {
  std::optional<int64_t> bos, pad;
  std::vector<int64_t> eos;  // the first ends a text; of several the last ends a turn
};

struct GgufVocabulary {
  GgufMetadata metadata;
  std::vector<std::string> warnings;  // one line each
};

// llama.cpp's name of a way to split a text. `ignore_merges`: a piece that is a token becomes it without merges. Empty:
// llama.cpp has no such way.
[[nodiscard]] std::string_view gguf_pre_tokenizer(SplitPattern pattern, bool ignore_merges);

// `tokenizer`: null if there is none. The list has vocab_size tokens, those that the tokenizer lacks as unused ones.
// Error: the tokenizer has more; two tokens with the same text, which llama.cpp does not load.
[[nodiscard]] GgufVocabulary gguf_vocabulary(const Tokenizer* tokenizer, const GgufSpecialIds& ids, int64_t vocab_size);

}  // namespace partita::internal
