#include "partita/interop/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/interop/zip_writer.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

void write_tensors(const fs::path& path, const std::vector<std::string>& names, char fill) {
  std::vector<SafetensorsEntry> entries;
  for (const std::string& name : names) entries.push_back({name, ElementType::f32, {2, 3}});
  SafetensorsWriter out(path, entries);
  for (size_t i = 0; i < names.size(); ++i) out.write(std::vector<std::byte>(24, static_cast<std::byte>(fill)));
  out.commit();
}

std::string error_of(const fs::path& folder, const HfFileNames& names = kHfModelFiles) {
  return error_message([&] { HfFolder(folder, names); });
}

TEST(HfFolder, ReadsOneFile) {
  const TemporaryDirectory folder;
  write_tensors(folder / "model.safetensors", {"a", "b"}, 7);
  const HfFolder hf(folder.path());
  EXPECT_EQ(hf.tensors().size(), 2U);
  EXPECT_EQ(hf.at("b").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(hf.at("b").strides, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(hf.at("b").bytes.size(), 24U);
  EXPECT_EQ(hf.at("b").bytes[23], std::byte{7});
  EXPECT_EQ(hf.find("c"), nullptr);
  EXPECT_THAT(error_message([&] { (void)hf.at("c"); }), HasSubstr("holds no tensor 'c'"));
}

TEST(HfFolder, ReadsShardsByTheirIndex) {
  const TemporaryDirectory folder;
  write_tensors(folder / "model-1.safetensors", {"a", "old"}, 1);
  write_tensors(folder / "model-2.safetensors", {"b", "a"}, 2);
  write_file(
      folder / "model.safetensors.index.json",
      R"({"metadata": {"total_size": 48}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  const HfFolder hf(folder.path());
  EXPECT_EQ(hf.tensors().size(), 3U);  // "old" too: whoever reads shall know of it
  EXPECT_EQ(hf.at("a").bytes[0], std::byte{1});
  EXPECT_EQ(hf.at("b").bytes[0], std::byte{2});
}

TEST(HfFolder, PrefersWhatTransformersPrefers) {
  const TemporaryDirectory folder;
  write_file(folder / "pytorch_model.bin", "not read");
  write_tensors(folder / "model.safetensors", {"a"}, 1);
  EXPECT_EQ(error_of(folder.path()), "no error");
  fs::remove(folder / "model.safetensors");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("files of torch before 1.6 are not read"));
}

TEST(HfFolder, NamesWhatIsWrong) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_of(folder.path()), HasSubstr("expected model.safetensors or pytorch_model.bin"));
  EXPECT_THAT(error_of(folder.path(), kPeftFiles), HasSubstr("expected adapter_model.safetensors"));
  const fs::path index = folder / "model.safetensors.index.json";
  const auto with_index = [&](const std::string& text) {
    write_file(index, text);
    return error_of(folder.path());
  };
  EXPECT_THAT(with_index("{"), HasSubstr("index.json:1:2: not valid JSON"));
  EXPECT_THAT(with_index("{}"), HasSubstr("is not an index of weights"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": 3}})"), HasSubstr("is not an index of weights"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": "../x.safetensors"}})"), HasSubstr("'a' is in '../x.safetensors'"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": "/etc/passwd"}})"), HasSubstr("which is outside the folder"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": ".."}})"), HasSubstr("which is outside the folder"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": "gone.safetensors"}})"),
              HasSubstr("lists gone.safetensors, which is missing: the download is not complete"));
  write_tensors(folder / "x.safetensors", {"b"}, 1);
  EXPECT_THAT(with_index(R"({"weight_map": {"a": "x.safetensors"}})"),
              HasSubstr("says that 'a' is in x.safetensors, which does not hold it"));
}

// tests/golden/make_hf.py: the same weights in each of the forms, by the libraries that define them.
TEST(HfFolder, ReadsTheSameFromEveryForm) {
  const fs::path golden = PARTITA_SOURCE_DIR "/tests/golden/hf";
  for (const auto& [one, other] :
       {std::pair("gpt2_tied", "gpt2_tied_bin"), std::pair("gpt2_untied", "gpt2_untied_sharded"),
        std::pair("llama_gqa_tied", "llama_gqa_tied_bin_sharded")}) {
    const HfFolder a(golden / one), b(golden / other);
    int compared = 0;
    for (const auto& [name, tensor] : a.tensors()) {
      const MappedTensor* same = b.find(name);
      ASSERT_NE(same, nullptr) << name;
      EXPECT_EQ(tensor.type, same->type) << name;
      EXPECT_EQ(tensor.shape, same->shape) << name;
      EXPECT_EQ(tensor.strides, same->strides) << name;
      EXPECT_TRUE(std::ranges::equal(tensor.bytes, same->bytes)) << name;
      ++compared;
    }
    EXPECT_GT(compared, 15) << one;
    for (const auto& [name, tensor] : b.tensors()) EXPECT_TRUE(a.find(name) || name == "lm_head.weight") << name;
  }
}

// What an index names is opened only if it is a regular file: a pipe would be waited for.
TEST(HfFolder, OpensNoPipesAndDevices) {
  const TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo((folder / "pipe.safetensors").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder / "zero.safetensors");
  for (const char* name : {"pipe.safetensors", "zero.safetensors"}) {
    write_file(folder / "model.safetensors.index.json", fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", name));
    EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr(name), HasSubstr("a regular file was expected")));
  }
  fs::remove(folder / "model.safetensors.index.json");
  ASSERT_EQ(::mkfifo((folder / "model.safetensors.index.json").c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder.path()), HasSubstr("is not a regular file"));
}

TEST(HfFolder, NamesGitLfsPointers) {
  constexpr const char* kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n";
  for (const char* name : {"model.safetensors", "pytorch_model.bin", "model.safetensors.index.json"}) {
    const TemporaryDirectory folder;
    write_file(folder / name, kPointer);
    EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr(name), HasSubstr("is a Git LFS pointer")));
  }
}

}  // namespace
}  // namespace partita::internal
