// GPT-2's printable form of bytes, used by tokenizer.json, vocab.json and merges.txt for byte-level tokens. Each byte
// is one character: '!' .. '~' and most of Latin-1 map to themselves, the others to U+0100 and up (' ' is 'Ġ').
//
//   to_printable(" the") == "Ġthe";   from_printable("Ġthe") == " the"
//
// Source: bytes_to_unicode in GPT-2's encoder.py (OpenAI, 2019).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

[[nodiscard]] std::string to_printable(std::string_view bytes);

// Empty if some character does not represent a byte.
[[nodiscard]] std::optional<std::string> from_printable(std::string_view text);

// The 256 bytes ordered by their printable characters: ids 0 .. 255 of GPT-2 and of train_bpe.
[[nodiscard]] const std::array<uint8_t, 256>& byte_level_alphabet();

}  // namespace partita::internal
