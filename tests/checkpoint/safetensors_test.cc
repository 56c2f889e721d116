#include "partita/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/checkpoint/test_state.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

// The bytes of a file with this header and so many bytes of data.
std::string file_of(std::string_view header, int64_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + std::string(header) + std::string(static_cast<size_t>(data_bytes), '\1');
}

std::string error_of(std::string_view file) {
  try {
    (void)parse_safetensors(std::as_bytes(std::span(file)), "folder/some.safetensors");
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Safetensors, ReadsWhatTheFormatSays) {
  const std::string file = file_of(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"empty":{"shape":[0,5],"dtype":"I64","data_offsets":[4,4]}}   )",
      16);
  const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(file)), "x");
  ASSERT_EQ(header.entries.size(), 3U);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_TRUE(header.entries[0].shape.empty());
  EXPECT_EQ(header.entries[1].name, "empty");
  EXPECT_EQ(header.entries[1].type, ElementType::i64);
  EXPECT_EQ(header.entries[2].name, "b");
  EXPECT_EQ(header.entries[2].type, ElementType::bf16);
  EXPECT_EQ(header.entries[2].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.entries[2].begin, 4);
  EXPECT_EQ(header.entries[2].end, 16);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.data_begin, static_cast<int64_t>(file.size()) - 16);
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  EXPECT_EQ(error_of(file_of("{}", 0)), "accepted");
  EXPECT_THAT(error_of(file_of("{}", 1)), HasSubstr("its tensors take 0 bytes, but 1 follow"));
}

struct Damage {
  const char* what;
  std::string file, message;
};

std::string one(std::string_view entry, int64_t data_bytes = 24) {
  return file_of(std::string(R"({"layer.weight":)") + std::string(entry) + "}", data_bytes);
}

std::vector<Damage> damages() {
  const std::string good = one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})");
  std::string longer = good, negative = good;
  longer[0] = static_cast<char>(longer[0] + 100);
  negative[7] = '\x80';
  return {
      {"empty file", "", "it holds 0 bytes"},
      {"cut in the length", good.substr(0, 7), "it holds 7 bytes"},
      {"cut in the header", good.substr(0, 40), "but only 32 follow"},
      {"header longer than the file", longer, "but only"},
      {"header of 2^63 bytes", negative, "100000000 are allowed"},
      {"cut in the data", good.substr(0, good.size() - 1), "'layer.weight' ends at byte 24 of the data"},
      {"data too long", good + "x", "its tensors take 24 bytes, but 25 follow"},
      {"not JSON", file_of("{\"a\":", 0), "not valid JSON"},
      {"no object", file_of("[1]", 0), "does not begin with '{'"},
      {"empty header", file_of("", 0), "does not begin with '{'"},
      {"text after the object", file_of("{} x", 0), "not valid JSON"},
      {"not UTF-8", file_of("{\"\xff\":1}", 0), "not valid JSON"},
      {"a name twice",
       file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],)"
               R"("data_offsets":[1,2]}})",
               2),
       "the name \"a\" occurs twice"},
      {"a field twice", one(R"({"dtype":"F32","dtype":"F32","shape":[2,3],"data_offsets":[0,24]})"),
       "\"dtype\" occurs twice"},
      {"an entry that is a number", one("3"), "'layer.weight' does not have exactly"},
      {"no dtype", one(R"({"shape":[2,3],"data_offsets":[0,24]})"), "'layer.weight' does not have exactly"},
      {"a field more", one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24],"x":1})"), "'layer.weight' does not"},
      {"unknown dtype", one(R"({"dtype":"F33","shape":[2,3],"data_offsets":[0,24]})"),
       "'layer.weight' has the unknown dtype"},
      {"dtype no string", one(R"({"dtype":4,"shape":[2,3],"data_offsets":[0,24]})"), "'layer.weight' has a dtype"},
      {"shape no array", one(R"({"dtype":"F32","shape":6,"data_offsets":[0,24]})"), "'layer.weight' has a shape"},
      {"negative size", one(R"({"dtype":"F32","shape":[-2,-3],"data_offsets":[0,24]})"),
       "'layer.weight' has -2 in its shape"},
      {"size not whole", one(R"({"dtype":"F32","shape":[2.0,3],"data_offsets":[0,24]})"),
       "'layer.weight' has 2.0 in its"},
      {"size of 2^63", one(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,24]})"),
       "'layer.weight' has 922"},
      {"product beyond 64 bits", one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0),
       "'layer.weight' has an impossible shape"},
      {"one offset", one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[24]})"), "'layer.weight' has 1 data_offsets"},
      {"three offsets", one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,12,24]})"),
       "'layer.weight' has 3 data_offsets"},
      {"negative offset", one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[-24,0]})"),
       "'layer.weight' has -24 in its"},
      {"offsets turned round", one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[24,0]})"),
       "'layer.weight' (F32 [2,3]) takes 24"},
      {"shape and offsets differ", one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,20]})"),
       "'layer.weight' (F32 [2,3]) takes 24"},
      {"dtype and offsets differ", one(R"({"dtype":"F64","shape":[2,3],"data_offsets":[0,24]})"),
       "'layer.weight' (F64 [2,3]) takes 48"},
      {"hole at the start", one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[4,28]})", 28),
       "'layer.weight' begins at byte 4"},
      {"offset beyond the file",
       one(R"({"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]})"),
       "'layer.weight' ends at byte 9223372036854775807"},
      {"overlap",
       file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],)"
               R"("data_offsets":[3,7]}})",
               7),
       "'b' begins at byte 3 of the data, inside the one before it"},
      {"hole between",
       file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],)"
               R"("data_offsets":[5,9]}})",
               9),
       "'b' begins at byte 5 of the data, after a hole from byte 4"},
      {"metadata no object", file_of(R"({"__metadata__":3})", 0), "__metadata__ is not an object"},
      {"metadata no text", file_of(R"({"__metadata__":{"a":3}})", 0), "__metadata__ 'a' is not a string"},
  };
}

TEST(Safetensors, RefusesEveryDamageByName) {
  for (const Damage& damage : damages()) {
    const std::string error = error_of(damage.file);
    EXPECT_THAT(error, HasSubstr(damage.message)) << damage.what;
    EXPECT_THAT(error, HasSubstr("folder/some.safetensors")) << damage.what;
    EXPECT_EQ(error.find('\n'), std::string::npos) << damage.what;
  }
}

// No damage may crash the reader or make it hand out bytes beyond the file.
TEST(Safetensors, SurvivesRandomDamage) {
  const std::string good = file_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                   R"("b":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]}})",
                                   34);
  ASSERT_EQ(error_of(good), "accepted");
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % file.size();
      if (random() % 3 == 0) {
        file.resize(at);
        if (file.empty()) break;
      } else {
        file[at] = static_cast<char>(random());
      }
    }
    try {
      const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(file)), "x");
      ASSERT_LE(header.data_begin, std::ssize(file));
      for (const SafetensorsEntry& entry : header.entries) {
        ASSERT_GE(entry.begin, 0);
        ASSERT_LE(entry.begin, entry.end);
        ASSERT_LE(entry.end, std::ssize(file) - header.data_begin);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

TEST(Safetensors, WritesWhatItReads) {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  const std::vector<SafetensorsEntry> entries = {{"z", ElementType::f32, {2, 3}},
                                                 {"none", ElementType::f64, {0}},
                                                 {"a \"quoted\" \u00e9", ElementType::u8, {5}},
                                                 {"scalar", ElementType::i64, {}}};
  std::string data(24 + 5 + 8, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 37);
  {
    SafetensorsWriter out(path, entries, {{"step", "3"}});
    for (size_t at = 0, cut = 1; at < data.size(); at += cut, cut += 2)
      out.write(std::as_bytes(std::span(data).subspan(at, std::min(cut, data.size() - at))));
    EXPECT_FALSE(std::filesystem::exists(path)) << "visible before commit";
    out.commit();
  }
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("step"), "3");
  ASSERT_EQ(file.entries().size(), entries.size());
  std::string back;
  for (size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsEntry& entry = file.at(entries[i].name);
    EXPECT_EQ(entry.type, entries[i].type);
    EXPECT_EQ(entry.shape, entries[i].shape);
    const auto bytes = file.bytes(entry);
    back.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_EQ(back, data);
  const std::string whole = read_file(path);
  EXPECT_EQ((whole.size() - data.size()) % 64, 0U) << "the data is not aligned";
  EXPECT_EQ(whole.size(), make_safetensors_header(entries, {{"step", "3"}}).size() + data.size());
}

// tests/golden/make_gpt2.py wrote it with the format's own library.
TEST(Safetensors, ReadsAFileOfTheReferenceImplementation) {
  const SafetensorsFile file(PARTITA_SOURCE_DIR "/tests/golden/gpt2.safetensors");
  EXPECT_THAT(file.metadata().at("settings"), HasSubstr("\"learning_rate\": 0.001"));
  EXPECT_EQ(file.at("tokens").type, ElementType::i32);
  EXPECT_EQ(file.at("tokens").shape, (std::vector<int64_t>{2, 11}));
  EXPECT_EQ(file.at("loss.mean").type, ElementType::f64);
  EXPECT_EQ(file.at("weight/layers.1.attention.qkv.weight").shape, (std::vector<int64_t>{72, 24}));
  std::array<int32_t, 22> labels{};
  std::memcpy(labels.data(), file.bytes(file.at("labels")).data(), sizeof labels);
  for (size_t i = 0; i < labels.size(); ++i)
    EXPECT_TRUE(i == 3 || i == 11 || i == 21 ? labels[i] == -1 : labels[i] >= 0 && labels[i] < 61) << i;
}

TEST(Safetensors, NamesAMissingTensorAndFile) {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  SafetensorsWriter(path, {}).commit();
  const SafetensorsFile file(path);
  EXPECT_EQ(file.find("w"), nullptr);
  EXPECT_THAT([&] { (void)file.at("w"); },
              testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr("x.safetensors"), HasSubstr("'w'"))));
  EXPECT_THAT([&] { SafetensorsFile(folder.path() / "missing.safetensors"); },
              testing::ThrowsMessage<Error>(HasSubstr("missing.safetensors")));
}

TEST(Safetensors, WriterRefusesWrongLengths) {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  const std::vector<SafetensorsEntry> entries = {{"a", ElementType::f32, {2}}};
  for (size_t bytes : {0, 7, 9}) {
    SafetensorsWriter out(path, entries);
    out.write(std::vector<std::byte>(bytes));
    EXPECT_THROW(out.commit(), Error) << bytes;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace partita::internal
