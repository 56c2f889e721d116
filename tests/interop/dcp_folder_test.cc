#include "partita/interop/dcp_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "partita/interop/chunked_weights.h"
#include "partita/interop/dcp_names.h"
#include "partita/interop/torch_file.h"
#include "tests/interop/dcp_writer.h"
#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Six numbers from `first` on, as one part of a .distcp file.
std::string six(float first) {
  std::string bytes;
  for (int i = 0; i < 6; ++i) bytes += little(first + static_cast<float>(i));
  return saved_tensor(bytes, {});
}

struct Part {
  std::vector<int32_t> offsets;
  std::string file = six(0);
};
// A folder of one tensor "w" in these parts of [2, 3].
class Folder {
 public:
  explicit Folder(const std::vector<int32_t>& shape, const std::vector<Part>& parts,
                  const std::string& dtype = "float32") {
    std::string file;
    DcpEntry entry{.dtype = dtype, .shape = shape, .parts = {}};
    for (const Part& part : parts) {
      entry.parts.push_back({.offsets = part.offsets,
                             .sizes = {2, 3},
                             .offset = static_cast<int32_t>(file.size()),
                             .length = static_cast<int32_t>(part.file.size())});
      file += part.file;
    }
    write_file(folder_ / ".metadata", dcp_metadata({entry}));
    write_file(folder_ / "__0_0.distcp", file);
  }
  [[nodiscard]] fs::path operator/(const std::string& name) const { return folder_ / name; }

  // The whole tensor as a parameter.
  [[nodiscard]] std::vector<float> read() const {
    const DcpFolder stored(folder_.path());
    ChunkedTensors tensors = stored.tensors();
    const std::vector<int64_t> shape = tensors.at("w").shape;
    ChunkedNaming naming{.parameters = {{"p", shape, {{.name = "w", .shape = shape, .rows = shape[0]}}}},
                         .is_ignorable = [](std::string_view) { return false; }};
    const ChunkedWeights weights(folder_.path(), std::move(tensors), std::move(naming));
    const ParameterSpec p{.name = "p", .shape = shape};
    weights.check(std::span(&p, 1));
    return read_all(weights, p);
  }
  [[nodiscard]] std::string error() const {
    return error_message([&] { (void)read(); });
  }

 private:
  TemporaryDirectory folder_;
};

TEST(DcpFolder, JoinsChunksOfRowsAndColumns) {
  const Folder folder({4, 6}, {{{0, 0}, six(0)}, {{2, 0}, six(10)}, {{0, 3}, six(20)}, {{2, 3}, six(30)}});
  EXPECT_EQ(folder.read(), (std::vector<float>{0,  1,  2,  20, 21, 22, 3,  4,  5,  23, 24, 25,
                                               10, 11, 12, 30, 31, 32, 13, 14, 15, 33, 34, 35}));
}

TEST(DcpFolder, RefusesChunksThatDoNotCoverTheTensorOnce) {
  EXPECT_THAT(Folder({4, 3}, {{{0, 0}}}).error(),
              HasSubstr("rows [2, 4), columns [0, 3) of 'w' are stored by no rank"));
  EXPECT_THAT(Folder({4, 3}, {{{0, 0}}, {{1, 0}}}).error(),
              HasSubstr("rows [1, 2), columns [0, 3) of 'w' are stored twice"));
  EXPECT_THAT(Folder({3, 3}, {{{0, 0}}, {{1, 0}}}).error(), HasSubstr("are stored twice"));
  EXPECT_THAT(Folder({2, 6}, {{{0, 0}}}).error(), HasSubstr("columns [3, 6) of 'w' are stored by no rank"));
}

TEST(DcpFolder, RefusesFilesThatAreNotAsTheMetadataSays) {
  {
    const Folder folder({2, 3}, {{{0, 0}}});
    EXPECT_EQ(folder.error(), "no error");
    std::string file = read_file(folder / "__0_0.distcp");
    write_file(folder / "__0_0.distcp", file.substr(0, file.size() - 1));
    EXPECT_THAT(folder.error(), AllOf(HasSubstr("__0_0.distcp has"), HasSubstr("cut short?")));
    fs::remove(folder / "__0_0.distcp");
    EXPECT_THAT(folder.error(), HasSubstr("lists __0_0.distcp, which is missing: the checkpoint is not complete"));
    fs::create_directory(folder / "__0_0.distcp");
    EXPECT_THAT(folder.error(), HasSubstr("which is missing"));
  }
  EXPECT_THAT(
      Folder({2, 3}, {{{0, 0}, saved_tensor(std::string(24, 'x'), {.shape = {3, 2}, .strides = {2, 1}})}}).error(),
      HasSubstr("the part of 'w' at byte 0 is [3, 2] F32, and [2, 3] in .metadata"));
  EXPECT_THAT(Folder({2, 3}, {{{0, 0}, saved_tensor(std::string(24, 'x'), {.storage_type = "IntStorage"})}}).error(),
              HasSubstr("is [2, 3] I32"));
  EXPECT_THAT(Folder({2, 3}, {{{0, 0}}}, "bfloat16").error(), HasSubstr("is [2, 3] F32"));
  EXPECT_THAT(
      Folder({2, 3}, {{{0, 0}, torch_file_of(pickle_of({{.name = "w"}}), {{"0", std::string(24, 'x')}})}}).error(),
      HasSubstr("a tensor was expected"));
  EXPECT_THAT(Folder({2, 3}, {{{0, 0}, "abc"}}).error(), HasSubstr("is not a zip archive"));
  EXPECT_THAT(Folder({2, 3}, {{{0, 0}}}, "float8_e4m3fn").error(),
              HasSubstr("of an element type that is not supported: w torch.float8_e4m3fn"));
  EXPECT_THAT(Folder({2, 3}, {{{0, 0}}}, "int64").error(), HasSubstr("not supported: w torch.int64"));
}

// A file that cannot be mapped is reported each time, and not taken for an empty one.
TEST(DcpFolder, ReportsAFileThatIsGoneEachTime) {
  const Folder folder({2, 3}, {{{0, 0}}});
  const ChunkedTensors tensors = DcpFolder(folder / "").tensors();
  fs::remove(folder / "__0_0.distcp");
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_message([&] { (void)tensors.at("w").chunks[0].open(); }), HasSubstr("No such file"));
}

fs::path golden(const std::string& name) { return fs::path(PARTITA_SOURCE_DIR) / "tests/golden/trainers" / name; }

// A changed byte of any tensor is found by the checksum of its part, when that is read.
TEST(DcpFolder, FindsAChangedByte) {
  const TemporaryDirectory folder;
  fs::copy(golden("dcp_2"), folder.path(), fs::copy_options::recursive);
  const ModelConfig model = open_folder(golden("llama")).model;
  const auto errors = [&] {
    DcpModel found = find_dcp_model(model, DcpFolder(folder.path()).tensors(), folder.path());
    const ChunkedWeights weights(folder.path(), std::move(found.tensors), std::move(found.naming));
    int count = 0;
    std::string last;
    for (const ParameterSpec& p : parameter_specs(hf_parameters(model))) {
      const std::string error = error_message([&] { (void)read_all(weights, p); });
      if (error != "no error") ++count, last = error;
    }
    return std::pair(count, last);
  };
  EXPECT_EQ(errors().first, 0);
  const DcpMetadata metadata = [&] {
    const std::string bytes = read_file(folder / ".metadata");
    return parse_dcp_metadata(std::as_bytes(std::span(bytes)), ".metadata");
  }();
  const DcpPlace& place = metadata.tensors.at("state.model.model.layers.1.mlp.down_proj.weight").chunks[1].place;
  std::string file = read_file(folder / place.file);
  const auto bytes = std::as_bytes(std::span(file)).subspan(static_cast<size_t>(place.offset));
  const TorchTensor stored = parse_torch_tensor(bytes.first(static_cast<size_t>(place.length)), "", "");
  file[static_cast<size_t>(place.offset + stored.begin + 5)] ^= 1;
  write_file(folder / place.file, file);
  const auto [count, last] = errors();
  EXPECT_EQ(count, 1);
  EXPECT_THAT(last, AllOf(HasSubstr(place.file), HasSubstr("is damaged: the checksum of 'archive/data/0'")));
}

TEST(DcpFolder, NamesWhatDoesNotMatchTheModel) {
  const ModelConfig model = open_folder(golden("llama")).model;
  const auto error = [&](const std::function<void(ChunkedTensors&)>& change, const ModelConfig& of) {
    return error_message([&] {
      ChunkedTensors tensors = DcpFolder(golden("dcp_1")).tensors();
      change(tensors);
      DcpModel found = find_dcp_model(of, std::move(tensors), "folder");
      const ChunkedWeights weights("folder", std::move(found.tensors), std::move(found.naming));
      weights.check(parameter_specs(hf_parameters(of)));
    });
  };
  const std::string p = "model.model.layers.1.";
  EXPECT_EQ(error([](ChunkedTensors&) {}, model), "no error");
  EXPECT_THAT(error([&](ChunkedTensors& t) { t.erase(p + "mlp.up_proj.weight"); }, model),
              HasSubstr("missing from it: model.layers.1.mlp.up_proj.weight"));
  EXPECT_THAT(
      error([&](ChunkedTensors& t) { t["model.model.layers.1.self_attn.q_norm.weight"] = t.begin()->second; }, model),
      HasSubstr("not in this model: model.layers.1.self_attn.q_norm.weight"));
  ModelConfig other = model;
  other.ffn_hidden_size = 11;
  EXPECT_THAT(error([](ChunkedTensors&) {}, other),
              HasSubstr("of another shape: model.layers.0.mlp.gate_proj.weight [10, 12] instead of [11, 12]"));
  other = model;
  other.tied_head = TiedHead::yes;
  EXPECT_THAT(error([](ChunkedTensors&) {}, other), HasSubstr("lm_head.weight differs from model.embed_tokens.weight"));
  other = ModelConfig{.layers = 2, .hidden_size = 6, .heads = 2, .vocab_size = 21};
  EXPECT_THAT(error([](ChunkedTensors&) {}, other),
              AllOf(HasSubstr("folder holds no gpt2 under names that are known, such as 'transformer.h.0.ln_1.weight'"),
                    HasSubstr("it holds: model.lm_head.weight")));
}

TEST(DcpFolder, FindsTheModelUnderAnyPrefix) {
  const ModelConfig model = open_folder(golden("llama")).model;
  for (const std::string prefix : {"", "model.", "app.state.model.", "module.", "_orig_mod."}) {
    ChunkedTensors tensors;
    for (const HfParameter& p : hf_parameters(model))
      for (const HfPiece& piece : p.pieces) {
        std::string name = piece.name;
        if (name.starts_with("model.layers.1.")) name.insert(15, "_checkpoint_wrapped_module.");
        tensors[prefix + name] = {piece.shape, ElementType::f32, "F32", {}};
      }
    tensors["optimizer.state." + prefix + "model.layers.0.input_layernorm.weight"] = {{1}, ElementType::f32, "F32", {}};
    const bool named = !prefix.empty() && prefix != "_orig_mod.";
    if (named) tensors["ema.w"] = {{1}, ElementType::f32, "F32", {}};
    const DcpModel found = find_dcp_model(model, std::move(tensors), "folder");
    EXPECT_TRUE(found.tensors.contains("model.layers.1.mlp.up_proj.weight")) << prefix;
    EXPECT_TRUE(found.tensors.contains("lm_head.weight")) << prefix;
    ASSERT_EQ(found.warnings.size(), named ? 1U : 0U) << prefix;
    if (named) {
      EXPECT_THAT(found.warnings[0], HasSubstr("are read: ema.w are not"));
    }
  }
}

}  // namespace
}  // namespace partita::internal
