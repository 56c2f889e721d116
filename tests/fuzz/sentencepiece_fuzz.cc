// Fuzzes the reader of SentencePiece models: for any bytes, it throws Error or returns a tokenizer that encodes and
// decodes with ids of its vocabulary.
#include <cstdlib>
#include <string_view>

#include "partita/base/error.h"
#include "partita/tokenizer/sentencepiece/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const partita::internal::SentencePieceTokenizer tokenizer(partita::internal::parse_sentencepiece_model(bytes, "x"),
                                                              "x");
    // The model's own bytes are a text as well: they hold its pieces.
    for (const std::string_view text :
         {std::string_view(" the  lic\xFF\xE4\xB8 e\xCC\x81\xEF\xBC\xA1 aaaa\n"), bytes}) {
      const auto ids = tokenizer.encode(text);
      for (const partita::TokenId id : ids) {
        if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
      }
      (void)tokenizer.decode(ids);
    }
  } catch (const partita::Error&) {
  }
  return 0;
}
