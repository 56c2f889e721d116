// The whole offload family at once: where states, weights, sums of gradients and activations are, and when the host
// updates, in products with what a run may do. No bit of the training changes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <vector>

#include "tests/engine/zero_reference.h"
#include "tests/support/covering.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::EngineCase;

struct Shares {
  double host, disk;
};

struct Types {
  DType compute, states;
};

const std::vector<Shares> kPlaces = {{0, 0}, {1, 0}, {0, 1}, {0.5, 0}, {0, 0.5}, {0.4, 0.4}};
const std::vector<Types> kTypes = {
    {DType::fp32, DType::fp32}, {DType::bf16, DType::fp32}, {DType::bf16, DType::bf16}, {DType::fp16, DType::fp32}};
const std::vector<OptimizerKind> kOptimizers = {OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::sgd};
const std::vector<Recompute> kRecompute = {Recompute::none, Recompute::mlp, Recompute::full};
// Nothing; the layers' matrices, so that only tables and vectors are trained; one layer; all but adapters.
enum Frozen { none, matrices, one_layer, base };

// Settings, in the order of a row.
enum Setting {
  states,
  weights,
  sums,
  early,
  activations,
  stage,
  batches,
  types,
  optimizer,
  recompute,
  frozen,
  tied,
  late
};
const std::vector<int> kSizes = {static_cast<int>(kPlaces.size()),
                                 static_cast<int>(kPlaces.size()),
                                 2,
                                 2,
                                 2,
                                 4,
                                 2,
                                 static_cast<int>(kTypes.size()),
                                 static_cast<int>(kOptimizers.size()),
                                 static_cast<int>(kRecompute.size()),
                                 4,
                                 2,
                                 2};

template <class T>
const T& of(const std::vector<T>& values, const std::vector<int>& row, Setting setting) {
  return values[static_cast<size_t>(row[setting])];
}

// All pairs of values; for `make test-layouts` thousands of random rows more.
std::vector<std::vector<int>> rows() {
  std::vector<std::vector<int>> all = partita::test::cover_pairs(kSizes);
  std::mt19937 random(16);
  for (int n = 0; full_products() && n < 4000; ++n) {
    std::vector<int>& row = all.emplace_back();
    for (const int size : kSizes) row.push_back(static_cast<int>(random() % static_cast<unsigned>(size)));
  }
  return all;
}

EngineCase plain_case(const std::vector<int>& row) {
  EngineCase c{.kind = row[recompute] == 1 ? ModelKind::gpt2 : ModelKind::llama,
               .tied_head = row[tied] == 1 ? TiedHead::yes : TiedHead::no,
               .stage = row[stage],
               .micro_batches = row[batches] == 1 ? 3 : 1,
               .recompute = of(kRecompute, row, recompute),
               .compute = of(kTypes, row, types).compute,
               .states = of(kTypes, row, types).states,
               .optimizer = of(kOptimizers, row, optimizer)};
  if (row[frozen] == base) c.lora = {.rank = 2, .targets = c.kind == ModelKind::gpt2 ? "c_attn" : "q_proj,down_proj"};
  if (row[frozen] == matrices)
    c.frozen = [](const ParameterSpec& p) { return p.name.starts_with("layers.") && p.shape.size() == 2; };
  if (row[frozen] == one_layer) c.frozen = [](const ParameterSpec& p) { return p.name.starts_with("layers.2."); };
  return c;
}

// Weights leave with their states; gradients that stay in the buffers of all micro-batches are added by matmuls, whose
// sums are rounded otherwise; early updates are those of steps that neither clip nor skip nor need norms.
EngineCase offloaded_case(EngineCase c, const std::vector<int>& row, const std::filesystem::path& folder, int rank) {
  const Shares place = of(kPlaces, row, states);
  const bool adds_elsewhere = c.stage < 2 && c.micro_batches > 1;
  c.poison = true;
  c.offload = {.optimizer = place.host,
               .disk = place.disk,
               .disk_folder = folder,
               .weights = of(kPlaces, row, weights).host,
               .weights_disk = of(kPlaces, row, weights).disk,
               .gradients = row[sums] == 1 && !adds_elsewhere,
               .early_updates = c.clip == 0,
               .activations = row[activations] == 1 ? 4 : 0,
               .copies = [rank, share = row[late] == 1 ? 30U : 0U]() -> std::unique_ptr<Copies> {
                 return std::make_unique<test::LateCopies>(static_cast<unsigned>(rank) + 1, share);
               }};
  return c;
}

// Two steps, one that fp16 skips, and two more.
std::vector<StepResult> train(Engine& engine, EngineCase c, int rank, int ranks) {
  std::vector<StepResult> all = test::run_steps(engine, c, rank, ranks, 0, 2);
  if (c.compute == DType::fp16) {
    c.loss_scale = 1e30F;
    const std::vector<StepResult> skipped = test::run_steps(engine, c, rank, ranks, 2, 3);
    EXPECT_TRUE(skipped.front().skipped);
    c.loss_scale = 1;
  }
  for (const StepResult& r : test::run_steps(engine, c, rank, ranks, 2, 4)) all.push_back(r);
  return all;
}

TEST(OffloadProducts, GiveTheSameBits) {
  const TemporaryDirectory folder;
  const test::Groups groups;
  const int ranks = groups.data->size(), rank = groups.data->rank();
  for (const std::vector<int>& row : rows()) {
    EngineCase c = plain_case(row);
    if (row[early] == 1 && c.compute != DType::fp16 && c.optimizer != OptimizerKind::lamb) c.clip = 0;
    const auto plain = test::make_engine(c, *groups.self, *groups.data);
    const auto expected = train(*plain, c, rank, ranks);
    const EngineCase moved = offloaded_case(c, row, folder.path(), rank);
    const auto engine = test::make_engine(moved, *groups.self, *groups.data);
    const auto found = train(*engine, moved, rank, ranks);
    test::expect_same_bits(found, expected, *engine, *plain, fmt::format("row {}", fmt::join(row, ", ")));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace partita::internal
