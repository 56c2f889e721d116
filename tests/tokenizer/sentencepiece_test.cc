#include "partita/tokenizer/sentencepiece/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/tokenizer/protobuf_writer.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kFolder = PARTITA_SOURCE_DIR "/tests/golden/sentencepiece/";

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string id_hash(std::span<const TokenId> ids) {
  uint64_t hash = 0;
  for (const TokenId id : ids) hash = hash * 1000003 + static_cast<uint64_t>(id) + 1;
  return std::to_string(hash);
}

class SentencePieceGolden : public testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam();
  const std::unique_ptr<Tokenizer> tokenizer_ = load_sentencepiece(kFolder + name_ + ".model");
  const nlohmann::json cases_ = nlohmann::json::parse(read_file(kFolder + name_ + "_cases.json"));
};

TEST_P(SentencePieceGolden, EncodesAsTheReference) {
  const auto encoder = tokenizer_->make_encoder();  // one for all: what it remembers of a text must not show in others
  for (int round = 0; round < 2; ++round) {
    for (const auto& item : cases_["encode"]) {
      std::vector<TokenId> ids = {-7};
      encoder->encode(from_hex(item["text"]), ids);
      ids.erase(ids.begin());
      ASSERT_EQ(ids, item["ids"].get<std::vector<TokenId>>()) << item["text"] << ", round " << round;
    }
  }
}

TEST_P(SentencePieceGolden, DecodesAsTheReference) {
  for (const auto& item : cases_["decode"]) {
    const auto ids = item["ids"].get<std::vector<TokenId>>();
    ASSERT_EQ(tokenizer_->decode(ids), from_hex(item["text"])) << item;
  }
}

// Runs that cannot be cut; sums of scores that floats round and the reference resets.
TEST_P(SentencePieceGolden, EncodesLongTextsAsTheReference) {
  for (const auto& item : cases_["long"]) {
    std::string text;
    for (int i = 0; i < item["times"].get<int>(); ++i) text += from_hex(item["text"]);
    const std::vector<TokenId> ids = tokenizer_->encode(text);
    EXPECT_EQ(ids.size(), item["count"].get<size_t>()) << item;
    EXPECT_EQ(id_hash(ids), item["hash"].get<std::string>()) << item;
  }
}

INSTANTIATE_TEST_SUITE_P(, SentencePieceGolden,
                         testing::Values("bpe_bytes", "bpe_rules", "bpe_suffix", "bpe_unused", "bpe_unused_bytes",
                                         "unigram_bytes", "unigram_rules", "unigram_unused"),
                         [](const auto& test) { return std::string(test.param); });

TEST(SentencePiece, NamesItsSpecialTokens) {
  const auto tokenizer = load_sentencepiece(kFolder + "bpe_bytes.model");
  EXPECT_EQ(tokenizer->end_of_document(), 2);
  const auto plain = tokenizer->encode("the");
  auto expected = plain;
  expected.insert(expected.begin(), 1);
  EXPECT_EQ(tokenizer->encode("the", {.add_special = true}), expected);
  EXPECT_THAT(tokenizer->encode("", {.add_special = true}), ElementsAre(1));
  EXPECT_THAT(tokenizer->encode(""), IsEmpty());
  EXPECT_EQ(tokenizer->bytes_of(1), "");
  EXPECT_EQ(tokenizer->bytes_of(3 + 0x41), "A");
  EXPECT_EQ(tokenizer->bytes_of(tokenizer->encode("the")[0])[0], ' ');
  EXPECT_THAT(error_message([&] { (void)tokenizer->bytes_of(-1); }), HasSubstr("outside the vocabulary"));
  EXPECT_THAT(error_message([&] { (void)tokenizer->decode(std::vector<TokenId>{9999}); }), HasSubstr("9999"));
  // A model without <s>, and </s> at a place of its own.
  const auto suffix = load_sentencepiece(kFolder + "bpe_suffix.model");
  EXPECT_EQ(suffix->end_of_document(), 5);
  EXPECT_EQ(suffix->encode("the", {.add_special = true}), suffix->encode("the"));
}

TEST(SentencePiece, IsToldFromOtherFiles) {
  for (const char* name : {"bpe_bytes", "unigram_rules"}) {
    EXPECT_TRUE(looks_like_sentencepiece(read_file(kFolder + name + ".model").substr(0, 64)));
  }
  for (const char* head :
       {"", "\n", "\n\n\n\n", "{\n  \"version\"", "IQ== 0\nIg== 1\n", "\n{\n\"model\"", "PK\x03\x04"}) {
    EXPECT_FALSE(looks_like_sentencepiece(head)) << head;
  }
}

// Models as small as they may be: pieces {text, score, type}.
std::string model_of(std::initializer_list<std::tuple<std::string, float, uint64_t>> pieces, const std::string& rest) {
  std::string model;
  for (const auto& [text, score, type] : pieces) {
    model += protobuf_bytes(1, protobuf_bytes(1, text) + protobuf_float(2, score) + protobuf_varint(3, type));
  }
  return model + rest;
}
const std::string kBpe = protobuf_bytes(2, protobuf_varint(3, 2));
const std::string kAsIs =
    protobuf_bytes(3, protobuf_varint(3, 0) + protobuf_varint(4, 0));  // no spaces in front, none removed

std::vector<TokenId> encode(const std::string& model, std::string_view text) {
  return SentencePieceTokenizer(parse_sentencepiece_model(model, "t.model"), "t.model").encode(text);
}

TEST(SentencePiece, MergesByScoreThenFromTheLeft) {
  const std::string model =
      model_of({{"<unk>", 0, 2}, {"a", -9, 1}, {"b", -9, 1}, {"ab", -2, 1}, {"ba", -2, 1}}, kBpe + kAsIs);
  EXPECT_THAT(encode(model, "aba"), ElementsAre(3, 1));
  EXPECT_THAT(encode(model, "bab"), ElementsAre(4, 2));
  const std::string other =
      model_of({{"<unk>", 0, 2}, {"a", -9, 1}, {"b", -9, 1}, {"ab", -2, 1}, {"ba", -1.5, 1}}, kBpe + kAsIs);
  EXPECT_THAT(encode(other, "aba"), ElementsAre(1, 4));
  // The parts of a piece need not be pieces: "c" is none.
  const std::string parts = model_of({{"<unk>", 0, 2}, {"a", -9, 1}, {"ac", -2, 1}}, kBpe + kAsIs);
  EXPECT_THAT(encode(parts, "acca"), ElementsAre(2, 0, 1));
}

TEST(SentencePiece, ControlPiecesAreNeverText) {
  const std::string model = model_of({{"<unk>", 0, 2}, {"a", -9, 1}, {"b", 0, 3}, {"ab", 0, 3}}, kBpe + kAsIs);
  EXPECT_THAT(encode(model, "abab"), ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(encode(model, "bbb"), std::vector<TokenId>{0});
}

TEST(SentencePiece, RefusesWhatItDoesNotSupportByName) {
  const auto refusal = [](const std::string& model) { return error_message([&] { (void)encode(model, ""); }); };
  const std::string unk = protobuf_bytes(1, protobuf_bytes(1, "<unk>") + protobuf_varint(3, 2));
  const std::string a = protobuf_bytes(1, protobuf_bytes(1, "a"));
  EXPECT_THAT(refusal(""), HasSubstr("t.model: no pieces"));
  EXPECT_THAT(refusal(a), HasSubstr("t.model: no piece of type UNKNOWN"));
  EXPECT_THAT(refusal(unk), HasSubstr("t.model: no piece that text may become"));
  EXPECT_THAT(refusal(unk + unk), HasSubstr("pieces[1].piece \"<unk>\" occurs twice"));
  EXPECT_THAT(refusal(unk + a + a), HasSubstr("pieces[2].piece \"a\" occurs twice"));
  EXPECT_THAT(refusal(unk + protobuf_bytes(1, protobuf_bytes(1, "x") + protobuf_varint(3, 2))),
              HasSubstr("pieces 0 and 1 are both"));
  EXPECT_THAT(refusal(unk + protobuf_bytes(1, "")), HasSubstr("pieces[1].piece is empty"));
  EXPECT_THAT(refusal(unk + protobuf_bytes(1, protobuf_bytes(1, std::string(8000, 'a')))),
              HasSubstr("pieces[1].piece has 8000 bytes"));
  EXPECT_THAT(refusal(unk + protobuf_bytes(1, protobuf_bytes(1, std::string("a\0", 2)))),
              HasSubstr("holds a null character"));
  EXPECT_THAT(refusal(unk + protobuf_bytes(1, protobuf_bytes(1, "a") + protobuf_float(2, INFINITY))),
              HasSubstr("pieces[1].score is inf"));
  EXPECT_THAT(refusal(unk + a + protobuf_bytes(2, protobuf_varint(3, 3))),
              HasSubstr("trainer_spec.model_type WORD is not supported"));
  EXPECT_THAT(refusal(unk + a + protobuf_bytes(2, protobuf_varint(3, 4))),
              HasSubstr("trainer_spec.model_type CHAR is not supported"));
  EXPECT_THAT(refusal(unk + a + protobuf_bytes(2, protobuf_varint(35, 1))), HasSubstr("<0x00> is missing"));
  const std::string byte = protobuf_bytes(1, protobuf_bytes(1, "<0x00>") + protobuf_varint(3, 6));
  EXPECT_THAT(refusal(unk + a + byte), HasSubstr("trainer_spec.byte_fallback is false"));
  EXPECT_THAT(refusal(unk + a + protobuf_bytes(3, protobuf_bytes(2, "junk!"))),
              HasSubstr("normalizer_spec.precompiled_charsmap"));
  EXPECT_THAT(refusal(unk + a + protobuf_bytes(5, protobuf_bytes(2, "junk!"))),
              HasSubstr("denormalizer_spec.precompiled_charsmap"));
  EXPECT_THAT(refusal("\x0A\x05"
                      "ab"),
              HasSubstr("t.model: not a protobuf message"));
  EXPECT_THAT(error_message([] { (void)load_sentencepiece("/no/such.model"); }), HasSubstr("/no/such.model"));
}

// A file from anywhere is refused or loads; what loads encodes and decodes.
TEST(SentencePiece, SurvivesBrokenFiles) {
  std::mt19937 draw(5);
  int64_t refused = 0, loaded = 0;
  for (const char* name : {"bpe_rules", "bpe_unused", "unigram_rules", "bpe_bytes"}) {
    const std::string whole = read_file(kFolder + name + ".model");
    for (int i = 0; i < 120; ++i) {
      std::string broken = whole;
      if (i % 3 == 0) broken.resize(draw() % broken.size());
      for (unsigned n = draw() % 4; n > 0 && !broken.empty(); --n) {
        broken[draw() % broken.size()] ^= static_cast<char>(1U << (draw() % 8));
      }
      try {
        const SentencePieceTokenizer tokenizer(parse_sentencepiece_model(broken, "t.model"), "t.model");
        const auto ids = tokenizer.encode("the license  foo bar<sep>\xFF e\u0301 ＡＢ");
        for (const TokenId id : ids)
          ASSERT_LT(static_cast<uint64_t>(id), static_cast<uint64_t>(tokenizer.vocab_size()));
        (void)tokenizer.decode(ids);
        ++loaded;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(loaded, 50);
}

}  // namespace
}  // namespace partita::internal
