#include "partita/interop/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "partita/base/file.h"
#include "tests/interop/zip_writer.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<TorchTensor> parse(std::string_view file) {
  return parse_torch_file(std::as_bytes(std::span(file)), "folder/x.bin");
}
std::string error_of(std::string_view file) {
  return error_message([&] { (void)parse(file); });
}
std::string error_of(const PickleTensor& tensor, size_t storage_bytes = 24) {
  return error_of(torch_file_of(pickle_of({tensor}), {{"0", std::string(storage_bytes, 'x')}}));
}

TEST(TorchFile, FindsTensorsInTheirStorages) {
  const std::string storage = "aaaabbbbccccddddeeeeffff";
  const std::string file = torch_file_of(pickle_of({{.name = "w"},
                                                    {.name = "tail", .offset = 4, .shape = {2}, .strides = {1}},
                                                    {.name = "turned", .shape = {3, 2}, .strides = {1, 3}},
                                                    {.name = "none", .offset = 6, .shape = {0, 9}, .strides = {9, 1}},
                                                    {.name = "scalar", .offset = 5, .shape = {}, .strides = {}}}),
                                         {{"0", storage}});
  const auto tensors = parse(file);
  ASSERT_EQ(tensors.size(), 5U);
  const std::vector<std::string> expected = {storage, "eeeeffff", storage, "", "ffff"};
  for (size_t i = 0; i < expected.size(); ++i) {
    const TorchTensor& t = tensors[i];
    EXPECT_EQ(file.substr(static_cast<size_t>(t.begin), static_cast<size_t>(t.end - t.begin)), expected[i]) << t.name;
  }
  EXPECT_EQ(tensors[2].strides, (std::vector<int64_t>{1, 3}));
}

TEST(TorchFile, RefusesTensorsBeyondTheirStorage) {
  EXPECT_EQ(error_of({.name = "w"}), "no error");
  EXPECT_THAT(error_of({.name = "w", .offset = 1}),
              AllOf(HasSubstr("folder/x.bin: tensor 'w'"), HasSubstr("takes 6 elements from 1 on, its storage has 6")));
  EXPECT_THAT(error_of({.name = "w", .offset = -1}), HasSubstr("from -1 on"));
  EXPECT_THAT(error_of({.name = "w", .offset = 7, .shape = {0}, .strides = {1}}), HasSubstr("from 7 on"));
  EXPECT_THAT(error_of({.name = "w", .strides = {4, 1}}), HasSubstr("takes 7 elements"));
  EXPECT_THAT(error_of({.name = "w", .strides = {-3, 1}}), HasSubstr("has an impossible shape"));
  EXPECT_THAT(error_of({.name = "w", .shape = {-2, 3}}), HasSubstr("has an impossible shape"));
  EXPECT_THAT(error_of({.name = "w", .shape = {INT32_MAX, INT32_MAX, INT32_MAX}, .strides = {0, 0, 0}}),
              HasSubstr("has an impossible shape"));
  EXPECT_THAT(error_of({.name = "w", .shape = {INT32_MAX, 3}, .strides = {INT32_MAX, 1}}),
              HasSubstr("its storage has 6"));
  EXPECT_THAT(error_of({.name = "w", .key = "1"}), HasSubstr("is in the storage '1', which is missing"));
  EXPECT_THAT(error_of({.name = "w"}, 23), HasSubstr("a storage of 6 F32 elements, which has 23 bytes"));
  EXPECT_THAT(error_of({.name = "w", .count = 7}), HasSubstr("a storage of 7 F32 elements, which has 24 bytes"));
}

TEST(TorchFile, NamesWhatItIsNot) {
  EXPECT_THAT(error_of("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."), HasSubstr("files of torch before 1.6"));
  EXPECT_THAT(error_of(zip_of({{"a.txt", "x"}})), HasSubstr("a zip archive without data.pkl"));
  EXPECT_THAT(error_of(zip_of({{"m/data.pkl", "\x80\x02}."}, {"m/byteorder", "big"}})),
              HasSubstr("is not little-endian"));
  EXPECT_EQ(error_of(zip_of({{"m/data.pkl", "\x80\x02}."}})), "no error");
  EXPECT_THAT(error_of(torch_file_of("\x80\x02" + name("os", "system") + text("id") + "\x85R.", {})),
              AllOf(HasSubstr("folder/x.bin is refused"), HasSubstr("os.system")));
}

TEST(TorchFile, RefusesEveryCutOfARealFile) {
  const std::string file = read_file(PARTITA_SOURCE_DIR "/tests/golden/hf/gpt2_tied_bin/pytorch_model.bin");
  ASSERT_EQ(error_of(file), "no error");
  for (size_t length = 0; length < file.size(); length += 97)
    EXPECT_NE(error_of(std::string_view(file).substr(0, length)), "no error") << length;
}

// Whatever is damaged in a file of torch's own: no crash, and no tensor that leads out of the file.
TEST(TorchFile, SurvivesRandomDamage) {
  const std::string good =
      torch_file_of(pickle_of({{.name = "a"}, {.name = "b", .key = "1", .shape = {6}, .strides = {1}}}),
                    {{"0", std::string(24, 'x')}, {"1", std::string(24, 'y')}});
  ASSERT_EQ(error_of(good), "no error");
  std::mt19937 random(13);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes)
      file[random() % file.size()] = static_cast<char>(random());
    try {
      for (const TorchTensor& t : parse(file)) {
        ASSERT_LE(0, t.begin);
        ASSERT_LE(t.begin, t.end);
        ASSERT_LE(t.end, std::ssize(file));
        int64_t last = 0;
        bool empty = false;
        for (size_t d = 0; d < t.shape.size(); ++d) {
          last += (t.shape[d] - 1) * t.strides[d];
          empty = empty || t.shape[d] == 0;
        }
        ASSERT_LE(empty ? 0 : (last + 1) * size_of(t.type), t.end - t.begin) << t.name;
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace partita::internal
