// Fuzzes the reader of tokenizer.json: it throws Error, or returns a tokenizer that encodes any text with ids of its
// vocabulary and decodes it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "partita/base/error.h"
#include "partita/tokenizer/formats/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto tokenizer = partita::internal::parse_tokenizer_json(text, "fuzz");
    const std::string_view texts[] = {"the \u2581 Caf\u00E9 e\u0301 12\n\n <a>[L] QZ\xFF\xE4\xB8", text.substr(0, 300),
                                      ""};
    for (const std::string_view input : texts) {
      const auto ids = tokenizer->encode(input, {.allow_special = true, .add_special = true});
      for (const partita::TokenId id : ids) {
        if (id < 0 || id >= tokenizer->vocab_size()) __builtin_trap();
      }
      static_cast<void>(tokenizer->decode(ids));
    }
  } catch (const partita::Error&) {
  }
  return 0;
}
