#include "partita/tokenizer/formats/tiktoken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "partita/base/file.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string base64(std::string_view bytes) {
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += i + j > bytes.size() ? '=' : digits[bits >> (18 - 6 * j) & 63];
  }
  return out;
}

// The 256 bytes, then `more`, as a file.
std::string file_of(const std::vector<std::string>& more) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte)
    text += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  for (size_t i = 0; i < more.size(); ++i) text += base64(more[i]) + " " + std::to_string(256 + i) + "\n";
  return text;
}

// The definition: whole if it is a token, else the pair that joins to the lowest rank, the leftmost of equals.
std::vector<TokenId> merge_by_rank(const std::map<std::string, TokenId>& ranks, std::string_view piece) {
  if (const auto whole = ranks.find(std::string(piece)); whole != ranks.end()) return {whole->second};
  std::vector<std::string> parts;
  for (char c : piece) parts.emplace_back(1, c);
  for (;;) {
    size_t best = parts.size();
    TokenId lowest = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found == ranks.end() || (best < parts.size() && found->second >= lowest)) continue;
      best = i;
      lowest = found->second;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
  return ids;
}

// Vocabularies of random tokens: with some that no merges make, in any order of ranks.
TEST(Tiktoken, MergesByTheRankOfTheJoinedBytes) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> more;
    std::map<std::string, TokenId> ranks;
    for (int byte = 0; byte < 256; ++byte) ranks[std::string(1, static_cast<char>(byte))] = byte;
    const auto letters = 2 + random() % 2;
    for (auto n = random() % 25; n > 0; --n) {
      std::string token;
      for (auto length = 2 + random() % 5; length > 0; --length) token += static_cast<char>('a' + random() % letters);
      if (ranks.emplace(token, 256 + more.size()).second) more.push_back(token);
    }
    const ByteLevelBpe tokenizer(parse_tiktoken(file_of(more), "t.tiktoken"), "t.tiktoken",
                                 {SplitPattern::whole, /*ignore_merges=*/true});
    for (int text_round = 0; text_round < 50; ++text_round) {
      std::string text;
      for (auto n = 1 + random() % 20; n > 0; --n) text += static_cast<char>('a' + random() % letters);
      ASSERT_EQ(tokenizer.encode(text), merge_by_rank(ranks, text)) << text;
    }
  }
}

class TiktokenFile : public testing::Test {
 protected:
  std::filesystem::path write(const char* name, std::string_view text) {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  TemporaryDirectory folder_;
};

TEST_F(TiktokenFile, NameOrKindTellsPatternAndSpecialTokens) {
  const std::string text = file_of({"ab", "'S", "ab'S"});
  const auto by_name = load_tokenizer(write("o200k_base.tiktoken", text));
  EXPECT_EQ(by_name->vocab_size(), 200019);
  EXPECT_EQ(by_name->end_of_document(), 199999);
  EXPECT_THAT(by_name->encode("ab'S"), ElementsAre(258));  // one word with its contraction
  const std::string file = write("mine.tiktoken", text).string();
  const auto by_kind = load_tokenizer(file + ":llama3");
  EXPECT_THAT(by_kind->encode("ab'S"), ElementsAre(256, 257));
  EXPECT_EQ(by_kind->vocab_size(), 259 + 256);
  EXPECT_EQ(by_kind->end_of_document(), 260);
  EXPECT_EQ(by_kind->bytes_of(259), "<|begin_of_text|>");
  EXPECT_EQ(by_kind->bytes_of(259 + 255), "<|reserved_special_token_245|>");
  EXPECT_THAT(by_kind->encode("ab<|eot_id|>", {.allow_special = true, .add_special = true}),
              ElementsAre(259, 256, 259 + 9));
  EXPECT_EQ(by_kind->encode("<|eot_id|>").size(), 10U);
  EXPECT_EQ(by_kind->decode(std::vector<TokenId>{259, 256, 255}), "<|begin_of_text|>ab\xFF");
  EXPECT_THAT(error_message([&] { (void)load_tokenizer(file); }),
              HasSubstr("mine.tiktoken:KIND with one of r50k_base, gpt2, p50k_base"));
  EXPECT_THAT(error_message([&] { (void)load_tokenizer(file + ":gpt5"); }),
              HasSubstr("a tiktoken file of kind gpt5 is not known: r50k_base, "));
}

// Special tokens of published vocabularies: count and some ids.
TEST_F(TiktokenFile, SpecialTokensOfTheKinds) {
  const std::map<std::string_view, std::pair<size_t, TokenId>> expected = {
      {"r50k_base", {1, 50256}}, {"gpt2", {1, 50256}},         {"p50k_base", {1, 50256}},
      {"p50k_edit", {4, 50283}}, {"cl100k_base", {5, 100276}}, {"o200k_base", {2, 200018}},
      {"llama3", {256, 128255}}, {"llama4", {2048, 202047}},   {"qwen", {208, 151850}}};
  ASSERT_EQ(tiktoken_kinds().size(), expected.size());
  for (const TiktokenKind& kind : tiktoken_kinds()) {
    const auto special = kind.special(kind.tokens);
    EXPECT_EQ(special.size(), expected.at(kind.name).first) << kind.name;
    EXPECT_EQ(special.back().id, expected.at(kind.name).second) << kind.name;
  }
}

TEST_F(TiktokenFile, NamesWhatIsWrong) {
  const auto refusal = [](std::string_view text) {
    return error_message([&] { validate(parse_tiktoken(text, "t.tiktoken"), "t.tiktoken"); });
  };
  EXPECT_THAT(refusal("QQ== 0\nQ 1\n"), HasSubstr("t.tiktoken: line 2: 1 to 4096 bytes in base64 and an id expected"));
  EXPECT_THAT(refusal("QQ== x\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("QQ== -1\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("QQ== 4294967296\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("Q*== 1\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("QQ==\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal(""), HasSubstr("t.tiktoken: no token"));
  EXPECT_THAT(refusal("QQ== 0\nQg== 0\n"), HasSubstr("t.tiktoken: two tokens have the id 0"));
  EXPECT_THAT(refusal("QQ== 0\nQg== 1000000\n"), HasSubstr("ids are expected to be below 1028"));
  EXPECT_THAT(refusal("QQ== 0\n"), HasSubstr("t.tiktoken: no token for byte 0x00"));
  EXPECT_THAT(refusal(file_of({"a"})), HasSubstr("tokens 97 and 256 are both \"a\""));
  EXPECT_THAT(error_message([&] { (void)load_tiktoken(write("qwen.tiktoken", file_of({})), "r50k_base"); }),
              "no error");
  std::vector<std::string> many(60'000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = "#" + std::to_string(i);
  EXPECT_THAT(error_message([&] { (void)load_tiktoken(write("r50k_base.tiktoken", file_of(many))); }),
              HasSubstr("the id 50256 of <|endoftext|> is taken: this is not a file of kind r50k_base"));
}

TEST_F(TiktokenFile, LineEndsMayBeWindowsAndPaddingMissing) {
  std::string text = file_of({"ab"});
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\r\n");
  EXPECT_EQ(parse_tiktoken(text, "t").tokens, parse_tiktoken(file_of({"ab"}), "t").tokens);
  std::erase(text, '=');
  EXPECT_EQ(parse_tiktoken(text, "t").tokens, parse_tiktoken(file_of({"ab"}), "t").tokens);
  EXPECT_TRUE(looks_like_tiktoken("QQ== 0\nQg== 1\n"));
  EXPECT_TRUE(looks_like_tiktoken("QQ== 0\r\n"));
  EXPECT_FALSE(looks_like_tiktoken("{\"a\": 0}\n"));
  EXPECT_FALSE(looks_like_tiktoken("\x0A\x0E\x0A\x05<unk>"));
  EXPECT_FALSE(looks_like_tiktoken(""));
}

}  // namespace
}  // namespace partita::internal
