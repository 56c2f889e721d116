// The byte-level BPE tokenizer of GPT-2: pretokens (gpt2_split.h), then ranked merges of neighbouring tokens inside
// each; loading and saving in tokenizer_json.h and gpt2_files.h.
//
//   const ByteLevelBpe tokenizer(load_tokenizer_json("tokenizer.json"));
//   std::vector<TokenId> ids = tokenizer.encode("Hello world");
//
// Which merge comes next: always the lowest rank in the pretoken, the leftmost of equals, as in Hugging Face's
// tokenizers. A pretoken of n bytes takes O(n log n).
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe_model.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

// (left, right) -> rank and result, a flat open-addressing table: the lookup that merging spends its time on.
class MergeTable {
 public:
  struct Found {
    int32_t rank;  // kNone: the pair does not merge
    TokenId result;
  };
  static constexpr int32_t kNone = -1;

  explicit MergeTable(std::span<const BpeMerge> merges);
  [[nodiscard]] Found find(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].found;
      if (slots_[slot].key == kEmpty) return {kNone, 0};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // ids are not negative
  struct Slot {
    uint64_t key = kEmpty;
    Found found{kNone, 0};
  };
  static uint64_t key_of(TokenId left, TokenId right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  [[nodiscard]] size_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15) >> shift_; }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  int shift_ = 0;
};

class ByteLevelBpe final : public Tokenizer {
 public:
  // Error: validate(model, origin).
  explicit ByteLevelBpe(BpeModel model, std::string_view origin = "tokenizer");

  [[nodiscard]] std::unique_ptr<Encoder> make_encoder() const override;
  [[nodiscard]] int64_t vocab_size() const override { return model_.vocab_size(); }
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return end_of_document_; }
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;

  [[nodiscard]] const BpeModel& model() const { return model_; }
  [[nodiscard]] const MergeTable& merges() const { return merges_; }
  [[nodiscard]] TokenId byte_token(unsigned char byte) const { return byte_tokens_[byte]; }

 private:
  BpeModel model_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_tokens_{};
  std::optional<TokenId> end_of_document_;
};

}  // namespace partita
