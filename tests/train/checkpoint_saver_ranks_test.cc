// Checkpoints that are written while training goes on: they hold what was there when the save began, and training is
// the same as without them.
#include "partita/train/checkpoint_saver.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "partita/train/batch_loader.h"
#include "partita/train/build_model.h"
#include "partita/train/engine_checkpoint.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/ranks.h"
#include "tests/support/shared_folder.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const ModelConfig kModel{.layers = 3, .hidden_size = 24, .heads = 3, .vocab_size = 31, .max_length = 8};

StepResult step(Engine& engine, const Mesh& mesh, int64_t k) {
  const Batch batch =
      make_batch(at::arange(2 * 9, at::kLong).add(k).remainder(31).view({2, 9}), 2 * mesh.data().rank());
  return engine.step({&batch, 1}, {.step = k, .update = k, .learning_rate = 1e-2, .clip = 1, .previous_norm = 1});
}

// Memory that is read so late that an update which does not wait would have changed it.
class LateMemory final : public PieceMemory {
 public:
  LateMemory(std::byte* data, int64_t bytes) : bytes_(data, static_cast<size_t>(bytes)) {}
  void read(int64_t offset, std::span<std::byte> out) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::ranges::copy(bytes_.subspan(static_cast<size_t>(offset), out.size()), out.begin());
  }
  void write(int64_t, std::span<const std::byte>) override {}

 private:
  std::span<std::byte> bytes_;
};

// Every eighth piece, and so all that follow it.
CheckpointContents read_late(CheckpointContents contents) {
  for (size_t i = 0; i < contents.pieces.size(); i += 8) {
    Piece& piece = contents.pieces[i];
    piece.elsewhere = std::make_shared<LateMemory>(std::exchange(piece.data, nullptr), bytes_of(contents, piece));
  }
  return contents;
}

std::string manifest_of(const fs::path& folder) { return read_file(folder / kManifestName); }

// Saves of every step, in the background and at once: the same bytes, losses and norms.
TEST(CheckpointSaver, StoresTheMomentWhileTrainingGoesOn) {
  const Mesh mesh(test_world());
  const SharedFolder root(mesh.world());
  struct Case {
    int stage;
    Offload offload = {};
  };
  const std::vector<Case> cases = {{0},
                                   {1},
                                   {2},
                                   {3},
                                   {1, {.optimizer = 1}},
                                   {3, {.optimizer = 0.5}},
                                   {2, {.optimizer = 1, .early_updates = true}},
                                   {1, {.disk = 1, .disk_folder = root / "scratch"}},
                                   {3, {.optimizer = 0.5, .disk = 0.5, .disk_folder = root / "scratch"}}};
  for (size_t c = 0; c < cases.size(); ++c) {
    EngineOptions options{.shape = {.samples = 2, .length = 8}, .seed = 7};
    options.offload = cases[c].offload;
    const auto expected = make_engine(kModel, mesh, cases[c].stage, options);
    const auto engine = make_engine(kModel, mesh, cases[c].stage, options);
    const fs::path folder = root / std::to_string(c);
    CheckpointSaver at_once({.root = folder / "at_once", .checkpoint = {.keep_last = 0, .background = Switch::off}},
                            mesh.world());
    CheckpointSaver later({.root = folder / "later", .checkpoint = {.keep_last = 0, .background = Switch::on}},
                          mesh.world());
    for (int64_t k = 0; k < 3; ++k) {
      const StepResult a = step(*expected, mesh, k), b = step(*engine, mesh, k);
      EXPECT_EQ(a.loss, b.loss) << c;
      EXPECT_EQ(a.grad_norm, b.grad_norm) << c;
      (void)later.finish();
      (void)at_once.begin(k + 1, saved_contents(*expected, Part::all), [](const Event&) { FAIL(); });
      EXPECT_FALSE(later.begin(k + 1, read_late(saved_contents(*engine, Part::all)),
                               [&](Event until) { engine->hold_updates(std::move(until)); }));
      EXPECT_TRUE(later.is_running());
    }
    const auto last = later.finish();
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->step, 3);
    EXPECT_TRUE(last->in_background);
    EXPECT_FALSE(later.is_running());
    for (int64_t k = 1; k <= 3; ++k)
      EXPECT_EQ(manifest_of(folder / "later" / step_folder_name(k)),
                manifest_of(folder / "at_once" / step_folder_name(k)))
          << "case " << c << ", step " << k;
  }
}

// An engine that ends before its save, as after an error: the saver gives the save up, and nothing reads the engine's
// memory any more.
TEST(CheckpointSaver, EndsBeforeTheEngine) {
  const Mesh mesh(test_world());
  const SharedFolder root(mesh.world());
  EngineOptions options{.shape = {.samples = 2, .length = 8}, .seed = 7};
  for (const Offload& offload : {Offload{}, Offload{.optimizer = 1}}) {
    options.offload = offload;
    auto engine = make_engine(kModel, mesh, 1, options);
    const fs::path partial = partial_path(root / "a" / step_folder_name(1));
    {
      CheckpointSaver saver({.root = root / "a", .checkpoint = {.background = Switch::on}}, mesh.world());
      (void)saver.begin(1, read_late(saved_contents(*engine, Part::all)),
                        [&](Event until) { engine->hold_updates(std::move(until)); });
      mesh.world().barrier();
      EXPECT_TRUE(fs::exists(partial));
      mesh.world().barrier();
    }
    mesh.world().barrier();
    EXPECT_FALSE(mesh.world().rank() == 0 && fs::exists(partial));
    (void)step(*engine, mesh, 0);  // has nothing to wait for
    engine.reset();
  }
}

// A failed save leaves nothing behind, training goes on, and the next one succeeds.
TEST(CheckpointSaver, GoesOnAfterAFailure) {
  const Mesh mesh(test_world());
  const SharedFolder root(mesh.world());
  const auto engine = make_engine(kModel, mesh, 1, {.shape = {.samples = 2, .length = 8}, .seed = 7});
  for (const Switch background : {Switch::on, Switch::off}) {
    const fs::path folder = root / (background == Switch::on ? "background" : "at once");
    CheckpointSaver saver({.root = folder, .checkpoint = {.background = background}}, mesh.world());
    const auto save = [&](int64_t at) {
      (void)saver.begin(at, saved_contents(*engine, Part::all),
                        [&](Event until) { engine->hold_updates(std::move(until)); });
      return saver.finish();
    };
    {
      // The disk of the last rank alone is full: all know it.
      std::optional<FileSizeLimit> full;
      if (mesh.world().rank() == mesh.world().size() - 1) full.emplace(1000);
      EXPECT_THAT([&] { (void)save(1); }, testing::ThrowsMessage<AgreedError>(HasSubstr("ulimit -f")));
      mesh.world().barrier();
    }
    EXPECT_FALSE(saver.is_running());
    (void)step(*engine, mesh, 0);
    mesh.world().barrier();
    EXPECT_TRUE(!fs::exists(folder) || fs::is_empty(folder));
    mesh.world().barrier();
    (void)save(2);
    EXPECT_TRUE(verify_checkpoint(folder / step_folder_name(2)).empty());
    mesh.world().barrier();
  }
}

}  // namespace
}  // namespace partita::internal
