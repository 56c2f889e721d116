#include "partita/interop/dcp_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "partita/base/file.h"
#include "tests/interop/dcp_writer.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

DcpMetadata parse(std::string_view pickle) {
  return parse_dcp_metadata(std::as_bytes(std::span(pickle)), "folder/.metadata");
}
std::string error_of(std::string_view pickle) {
  return error_message([&] { (void)parse(pickle); });
}

TEST(DcpMetadata, FindsEachChunkAndObject) {
  const DcpMetadata found = parse(dcp_metadata(
      {{.name = "a.weight",
        .dtype = "bfloat16",
        .shape = {5, 3},
        .parts = {{.sizes = {3, 3}, .offset = 7, .length = 100},
                  {.offsets = {3, 0}, .sizes = {2, 3}, .file = "__1_0.distcp", .offset = 0, .length = 90}}},
       {.name = "scalar", .shape = {}, .parts = {{.offsets = {}, .sizes = {}, .length = 5}}}},
      {"step"}));
  ASSERT_EQ(found.tensors.size(), 2U);
  const DcpTensor& a = found.tensors.at("a.weight");
  EXPECT_EQ(a.dtype, "torch.bfloat16");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{5, 3}));
  ASSERT_EQ(a.chunks.size(), 2U);
  EXPECT_EQ(a.chunks[0].sizes, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(a.chunks[0].place.offset, 7);
  EXPECT_EQ(a.chunks[0].place.length, 100);
  EXPECT_EQ(a.chunks[1].offsets, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(a.chunks[1].place.file, "__1_0.distcp");
  EXPECT_TRUE(found.tensors.at("scalar").shape.empty());
  ASSERT_EQ(found.objects.size(), 1U);
  EXPECT_EQ(found.objects.at("step").file, "__0_0.distcp");
}

// What versions add: where the checkpoint was written, plans, extensions, enumerators by their name.
TEST(DcpMetadata, TakesWhatVersionsAdd) {
  const std::string path = name("pathlib", "PosixPath") + "(" + text("/") + text("tmp") + "tR";
  const std::string meta =
      object(kDcpModule, "StorageMeta", dictionary({{text("checkpoint_id"), path}, {text("save_id"), text("x")}}));
  const std::string kind = name("builtins", "getattr") + name("torch.distributed.checkpoint.planner", "WriteItemType") +
                           text("TENSOR") + "\x86R";
  const std::string item =
      object("torch.distributed.checkpoint.planner", "WriteItem", dictionary({{text("type"), kind}}));
  const std::string plan = object("megatron.core.dist_checkpointing.strategies.torch", "MCoreSavePlan",
                                  dictionary({{text("items"), "](" + item + "e"}}));
  const DcpMetadata found = parse(dcp_metadata(
      {{.parts = {{.descriptors = "]"}}}}, {},
      {{text("storage_meta"), meta}, {text("version"), text("1.0.0")}, {text("all_local_plans"), "](" + plan + "e"}}));
  EXPECT_EQ(found.tensors.size(), 1U);
}

TEST(DcpMetadata, RefusesEveryOtherName) {
  struct Attack {
    std::string pickle;
    const char* message;
  };
  const auto raw = [](const std::string& opcodes) { return "\x80\x02" + opcodes; };
  const std::vector<Attack> attacks = {
      {raw(name("os", "system") + text("id") + "\x85R."), "at byte 2: the name os.system is not allowed"},
      {raw(name("builtins", "eval") + "."), "builtins.eval"},
      {raw(name("torch", "load") + "."), "torch.load"},
      {raw(name("torch", "float33") + "."), "torch.float33"},
      {raw(name("torch.distributed.checkpoint.metadata", "Other") + "."), "metadata.Other"},
      {raw(name("torch._utils", "_rebuild_tensor_v2") + "."), "_rebuild_tensor_v2"},
      {raw(name("builtins", "getattr") + name("torch", "Size") + text("x") + "\x86R."), "an attribute of torch.Size"},
      {raw(name("builtins", "getattr") + text("os") + text("x") + "\x86R."), "an enumeration was expected"},
      {raw(name("torch", "Size") + ")R."), "a call of torch.Size with 0 arguments"},
      {raw(name("torch", "Size") + text("x") + "\x85R."), "a size was expected"},
      {raw(name("torch", "Size") + integers(std::vector<int32_t>(65, 1)) + "\x85R."), "a size has 65 numbers"},
      {raw(name(kDcpModule, "Metadata") + "K\x01\x85R."), "Metadata with 1 arguments"},
      {raw("K\x01Q."), "persistent ids are not allowed"},
      {raw(name(kDcpModule, "Metadata") + ")\x81}b}b."), "a second state"},
      {raw("(" + text("x") + "ios\nsystem\n."), "INST"},
      {raw("\x82\x01."), "EXT1"},
  };
  for (const Attack& attack : attacks)
    EXPECT_THAT(error_of(attack.pickle), AllOf(HasSubstr("folder/.metadata is refused"), HasSubstr(attack.message)));
}

TEST(DcpMetadata, RefusesWhatDoesNotFit) {
  const auto part = [](DcpPart p) { return error_of(dcp_metadata({{.parts = {std::move(p)}}})); };
  EXPECT_EQ(part({}), "no error");
  EXPECT_THAT(part({.stored = false}), HasSubstr("the chunk of 'w' from [0, 0] on is in no file"));
  EXPECT_THAT(part({.offsets = {1, 0}}), HasSubstr("exceeds 'w' 2x3"));
  EXPECT_THAT(part({.sizes = {2, 4}}), HasSubstr("exceeds 'w' 2x3"));
  EXPECT_THAT(part({.offsets = {0}, .sizes = {2}}), HasSubstr("exceeds 'w' 2x3"));
  EXPECT_THAT(part({.offsets = {-1, 0}}), HasSubstr("is negative"));
  EXPECT_THAT(part({.offset = -1}), HasSubstr("is not a number of at least 0"));
  EXPECT_THAT(part({.length = -1}), HasSubstr("is not a number of at least 0"));
  for (const char* file : {"../x.distcp", "/etc/passwd", "a/b", "", ".."})
    EXPECT_THAT(part({.file = file}), HasSubstr("which is outside the folder")) << file;
  EXPECT_THAT(part({.descriptors = "](" + text("zstd") + "e"}), HasSubstr("compressed or encrypted"));
  EXPECT_THAT(error_of(dcp_metadata({{}, {}})), HasSubstr("is given twice"));
  EXPECT_THAT(error_of("\x80\x02}."),
              HasSubstr("is not described by a torch.distributed.checkpoint.metadata.Metadata"));
  EXPECT_THAT(error_of("\x80\x02" + object(kDcpModule, "Metadata", "}") + "."), HasSubstr("has no 'storage_data'"));
  EXPECT_THAT(error_of("\x80\x02" +
                       object(kDcpModule, "Metadata",
                              dictionary({{text("storage_data"), "}"},
                                          {text("state_dict_metadata"), dictionary({{text("w"), "N"}})}})) +
                       "."),
              HasSubstr("'w' is not described by a"));
  // A list that holds itself is not followed.
  EXPECT_THAT(error_of("\x80\x02" +
                       object(kDcpModule, "Metadata",
                              dictionary({{text("storage_data"), "}"},
                                          {text("state_dict_metadata"),
                                           "]q\x01h\x01"
                                           "a"}})) +
                       "."),
              HasSubstr("a dictionary is missing"));
}

// One long list of chunks, or of attributes, can be named any number of times.
TEST(DcpMetadata, TakesEachPlaceOnce) {
  const std::string size = size_of_tensor({2, 3});
  const std::string chunk = object(kDcpModule, "ChunkStorageMetadata",
                                   dictionary({{text("offsets"), size_of_tensor({0, 0})}, {text("sizes"), size}}));
  const auto metadata = [&](const std::string& chunks) {
    const std::string tensor = object(
        kDcpModule, "TensorStorageMetadata",
        dictionary({{text("properties"), properties("float32")}, {text("size"), size}, {text("chunks"), chunks}}));
    const std::vector<int32_t> offsets = {0, 0};
    return error_of(
        "\x80\x02" +
        object(kDcpModule, "Metadata",
               dictionary({{text("state_dict_metadata"), dictionary({{text("w"), tensor}})},
                           {text("storage_data"), dictionary({{dcp_index("w", &offsets), dcp_place({})}})}})) +
        ".");
  };
  EXPECT_EQ(metadata("]" + chunk + "a"), "no error");
  EXPECT_THAT(metadata("](" + chunk + "q\x01h\x01" + "e"),
              HasSubstr("the chunk of 'w' from [0, 0] on is in no file, or listed twice"));
  EXPECT_THAT(error_of(dcp_metadata({{}}, {"w"})), HasSubstr("twice"));
  std::vector<std::pair<std::string, std::string>> more;
  for (int i = 0; i < 29; ++i) more.emplace_back(text("a" + std::to_string(i)), "N");
  EXPECT_EQ(error_of(dcp_metadata({{}}, {}, more)), "no error");
  more.emplace_back(text("b"), "N");
  EXPECT_THAT(error_of(dcp_metadata({{}}, {}, more)), HasSubstr("the checkpoint has 33 attributes"));
}

TEST(DcpMetadata, RefusesEveryCutOfARealFile) {
  for (const char* folder : {"dcp_1", "dcp_2_1", "torch_dist/iter_0000100"}) {
    const std::string file =
        read_file(std::filesystem::path(PARTITA_SOURCE_DIR) / "tests/golden/trainers" / folder / ".metadata");
    ASSERT_EQ(error_of(file), "no error");
    for (size_t length = 0; length < file.size(); length += 7)
      ASSERT_NE(error_of(std::string_view(file).substr(0, length)), "no error") << length;
  }
}

// Whatever is damaged: no crash, and no chunk that leads out of its tensor.
TEST(DcpMetadata, SurvivesRandomDamage) {
  const std::string good =
      dcp_metadata({{}, {.name = "b", .shape = {4, 3}, .parts = {{}, {.offsets = {2, 0}}}}}, {"step"});
  ASSERT_EQ(error_of(good), "no error");
  std::mt19937 random(17);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string pickle = good;
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes)
      pickle[random() % pickle.size()] = static_cast<char>(random());
    try {
      for (const auto& [name, tensor] : parse(pickle).tensors)
        for (const DcpChunk& chunk : tensor.chunks) {
          ASSERT_EQ(chunk.offsets.size(), tensor.shape.size());
          ASSERT_EQ(chunk.sizes.size(), tensor.shape.size());
          for (size_t d = 0; d < tensor.shape.size(); ++d) {
            ASSERT_GE(chunk.offsets[d], 0);
            ASSERT_GE(chunk.sizes[d], 0);
            ASSERT_LE(chunk.offsets[d] + chunk.sizes[d], tensor.shape[d]);
          }
          ASSERT_GE(chunk.place.offset, 0);
          ASSERT_GE(chunk.place.length, 0);
        }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 8000);
}

}  // namespace
}  // namespace partita::internal
