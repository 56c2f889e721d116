// Fuzzes the reader of tiktoken files: it throws Error, or the ranks form a model that encodes any text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "partita/base/error.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "partita/tokenizer/formats/tiktoken.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    // Every model needs tokens for the bytes; what is fuzzed comes behind.
    static const std::string bytes = [] {
      const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      std::string lines;
      for (int byte = 0; byte < 256; ++byte) {
        lines += {digits[byte >> 2], digits[(byte & 3) << 4], '=', '='};
        lines += " " + std::to_string(byte) + "\n";
      }
      return lines;
    }();
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    static_cast<void>(partita::internal::looks_like_tiktoken(text));
    const partita::internal::ByteLevelBpe tokenizer(
        partita::internal::parse_tiktoken(bytes + std::string(text), "fuzz"), "fuzz",
        {partita::internal::SplitPattern::o200k, true});
    static_cast<void>(tokenizer.decode(tokenizer.encode(text.substr(0, 300))));
  } catch (const partita::Error&) {
  }
  return 0;
}
