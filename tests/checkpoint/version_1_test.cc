// Loads checkpoints written by earlier versions in format version 1 (tests/golden/make_checkpoint_1.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/safetensors.h"
#include "partita/checkpoint/stored_weights.h"
#include "tests/checkpoint/saving.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

const fs::path kFolder = fs::path(PARTITA_SOURCE_DIR) / "tests/golden/checkpoint_1/step-00000002";

// What the format said: elements [begin, begin + count) of the flat tensor.
GlobalValues stored_values() {
  const json manifest = json::parse(read_file(kFolder / "manifest.json"));
  std::vector<SafetensorsFile> files;
  for (const json& file : manifest["files"]) files.emplace_back(kFolder / file["name"].get<std::string>());
  std::vector<TensorInfo> infos;
  std::vector<std::vector<std::byte>> values;
  for (const json& tensor : manifest["tensors"]) {
    infos.push_back({tensor["name"], tensor["shape"], parse_dtype(tensor["dtype"].get<std::string>())});
    const auto item = static_cast<size_t>(size_of(infos.back().dtype));
    values.emplace_back(static_cast<size_t>(infos.back().count()) * item);
    for (const json& piece : tensor["pieces"]) {
      const SafetensorsFile& file = files[piece["file"].get<size_t>()];
      std::ranges::copy(file.bytes(file.at(piece["key"].get<std::string>())),
                        values.back().data() + piece["begin"].get<size_t>() * item);
    }
  }
  return {std::move(infos), std::move(values)};
}

TEST(Version1, LoadsInAnyLayout) {
  const GlobalValues values = stored_values();
  uint32_t seed = 0;
  for (const int ranks : {1, 2, 3, 5})
    for (const Cut cut : kCuts) {
      std::vector<RankMemory> layout = random_layout(values.tensors(), ranks, ++seed, cut);
      run_ranks(ranks, [&](Peers& peers) {
        const json scalars = load_checkpoint(kFolder, layout[static_cast<size_t>(peers.rank())].state, peers);
        EXPECT_EQ(scalars["consumed_samples"], 10);
      });
      for (const RankMemory& rank : layout) EXPECT_TRUE(rank.holds(values)) << ranks << " ranks, cut " << int(cut);
    }
}

TEST(Version1, IsVerifiedAndWrittenAgainInTheNewestVersion) {
  EXPECT_THAT(verify_checkpoint(kFolder), IsEmpty());
  const GlobalValues values = stored_values();
  const TemporaryDirectory root;
  const fs::path again = save(root.path(), 2, values, 3);
  EXPECT_EQ(json::parse(read_file(again / "manifest.json"))["version"], 2);
  std::vector<RankMemory> layout = random_layout(values.tensors(), 2, 9);
  run_ranks(
      2, [&](Peers& peers) { (void)load_checkpoint(again, layout[static_cast<size_t>(peers.rank())].state, peers); });
  for (const RankMemory& rank : layout) EXPECT_TRUE(rank.holds(values));
}

TEST(Version1, WeightsAreReadBoxByBox) {
  const StoredWeights weights(kFolder);
  const GlobalValues values = stored_values();
  const ParameterSpec table{.name = "embedding.token.weight", .shape = {67, 6}};
  const auto tensor = std::ranges::find(values.tensors(), "model/" + table.name, &TensorInfo::name);
  ASSERT_NE(tensor, values.tensors().end());
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const Box box = random_box(random, whole_box(table.shape));
    std::vector<float> found(static_cast<size_t>(box.count()));
    weights.read(table, box, found);
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(found)),
                                   values.box(static_cast<int>(tensor - values.tensors().begin()), box)));
  }
}

// The piece of three boxes has one checksum, whichever of them is read.
TEST(Version1, DamageIsSeenInEachBoxOfARun) {
  const TemporaryDirectory root;
  const fs::path folder = root / kFolder.filename();
  fs::copy(kFolder, folder);
  const fs::path file = folder / "rank-00001.safetensors";
  int64_t begin = 0;
  {
    const SafetensorsFile opened(file);
    const auto bytes = opened.bytes(opened.at("model/embedding.token.weight[128:256]"));
    ASSERT_EQ(bytes.size(), 128 * sizeof(float));
    const std::string all = read_file(file);
    begin = static_cast<int64_t>(all.find(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  }
  flip_byte(file, begin + 60 * 4);  // element 188, in row 31
  const ParameterSpec table{.name = "embedding.token.weight", .shape = {67, 6}};
  const auto read = [&](const Box& box) {
    return error_message([&] {
      std::vector<float> out(static_cast<size_t>(box.count()));
      StoredWeights(folder).read(table, box, out);
    });
  };
  const std::string damage = "the checksum of 'model/embedding.token.weight[128:256]' does not match";
  EXPECT_THAT(read({21, 1, 2, 4}), HasSubstr(damage));
  EXPECT_THAT(read({31, 1, 2, 1}), HasSubstr(damage));
  EXPECT_THAT(read({42, 1, 0, 4}), HasSubstr(damage));
  EXPECT_EQ(read({21, 1, 0, 2}), "no error");
  EXPECT_EQ(read({42, 1, 4, 2}), "no error");
}

}  // namespace
}  // namespace partita::internal
