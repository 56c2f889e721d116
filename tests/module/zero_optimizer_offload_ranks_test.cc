// ZeroOptimizer with states in host memory or on disk: where they are changes no bit of the training.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "tests/module/offload_case.h"
#include "tests/module/state_of_ranks.h"
#include "tests/module/zero_case.h"
#include "tests/support/covering.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using namespace test;
using partita::test::cover_pairs;
using testing::AllOf;
using testing::HasSubstr;

enum Kind { adamw, sgd, lamb, of_torch };
enum Types { fp32, bf16, bf16_states };
enum Norm { unclipped, two, one, largest };

struct Case {
  int stage = 0, passes = 1;
  Types types = fp32;
  Kind kind = adamw;
  int groups = 1;
  Norm norm = two;
  bool freezes = false, overlap = true;

  [[nodiscard]] std::string text() const {
    return fmt::format("stage {}, {} passes, types {}, optimizer {}, {} groups, norm {}, frozen {}, overlap {}", stage,
                       passes, static_cast<int>(types), static_cast<int>(kind), groups, static_cast<int>(norm), freezes,
                       overlap);
  }
};

std::vector<ParameterGroup> groups_of(SmallModule& module, int count) {
  std::vector<ParameterGroup> groups(static_cast<size_t>(count));
  for (NamedParameter& p : named(*module)) {
    const bool second = count > 1 && (p.name.starts_with("embedding") || p.name.ends_with("bias"));
    groups[second ? 1 : 0].parameters.push_back(std::move(p));
  }
  return groups;
}

ZeroOptimizerOptions options_of(const Case& c) {
  ZeroOptimizerOptions o{
      .stage = c.stage,
      .max_norm = std::array{0.0, 0.3, 5.0, 0.02}[static_cast<size_t>(c.norm)],
      .norm_type = std::array{2.0, 2.0, 1.0, std::numeric_limits<double>::infinity()}[static_cast<size_t>(c.norm)],
      .micro_batches = c.passes,
      .optimizer_dtype = c.types == bf16_states && c.kind != of_torch ? DType::bf16 : DType::fp32,
      .overlap = c.overlap,
      .unit_elements = kUnit};
  if (c.kind == of_torch)
    o.torch_optimizer = [](const std::vector<std::vector<at::Tensor>>& groups) {
      std::vector<at::Tensor> all;
      for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
      return std::make_shared<torch::optim::RMSprop>(all, torch::optim::RMSpropOptions(1e-3).momentum(0.5));
    };
  return o;
}

struct Training {
  std::vector<double> numbers;  // losses and norms
  StateDict before_end, state;
  std::vector<NamedParameter> weights;
};

// Steps of all kinds: whole ones, one of fewer passes, one after a pass that was dropped, one that is skipped, and one
// after weights were written.
Training train(const Case& c, const Offload& offload, bool poison) {
  const int rank = test_world().rank(), ranks = test_world().size();
  SmallModule module(1);
  module->to(test_device());
  if (c.types != fp32) module->to(torch::kBFloat16);
  if (c.freezes)
    for (torch::Tensor& p : module->convolution->parameters()) p.requires_grad_(false);
  std::vector<ParameterGroup> groups = groups_of(module, c.groups);
  const std::array kinds = {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lamb, OptimizerKind::adamw};
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].optimizer.kind = kinds[static_cast<size_t>(c.kind)];
    groups[g].optimizer.weight_decay = g == 0 ? 0.1 : 0;
    groups[g].learning_rate = g == 0 ? 2e-3 : 5e-3;
  }
  ZeroOptimizerOptions options = options_of(c);
  options.offload = offload;
  options.poison = poison;
  ZeroOptimizer optimizer(std::move(groups), mesh(), options);

  Training result;
  int64_t number = 0;
  const auto pass = [&](double factor = 1) {
    const torch::Tensor loss =
        small_loss(module, small_samples((number++ * ranks + rank) * kSamples, kSamples)) / c.passes * factor;
    result.numbers.push_back(loss.item<double>());
    loss.backward();
  };
  const auto step = [&](int passes, double last_factor = 1) {
    for (int p = 0; p < passes; ++p) pass(p + 1 == passes ? last_factor : 1);
    const ZeroStep r = optimizer.step();
    EXPECT_EQ(r.skipped, std::isnan(r.grad_norm));
    result.numbers.push_back(r.skipped ? -1 : r.grad_norm);
  };
  step(c.passes);
  step(c.passes);
  step(std::max(1, c.passes - 1));
  pass();
  optimizer.zero_grad();
  step(c.passes);
  const ZeroStep skipped = [&] {
    pass(rank == ranks - 1 ? NAN : 1);
    return optimizer.step();
  }();
  EXPECT_TRUE(skipped.skipped);
  result.numbers.pop_back();
  step(c.passes);
  {
    const torch::NoGradGuard none;
    module->last->weight.narrow(0, 2, 5).mul_(1.25);
    module->embedding->weight.select(0, 3).fill_(0.5);
    for (const torch::Tensor& p : module->parameters()) (void)p.sum();  // with stage 3 others leave
  }
  if (c.kind != of_torch) result.before_end = optimizer.state_dict();
  step(c.passes);
  step(c.passes);
  result.state = optimizer.state_dict();
  result.weights = optimizer.weights();
  return result;
}

void expect_same_bits(const Training& found, const Training& expected, const std::string& what) {
  ASSERT_EQ(found.numbers.size(), expected.numbers.size()) << what;
  for (size_t i = 0; i < found.numbers.size(); ++i)
    EXPECT_EQ(found.numbers[i], expected.numbers[i]) << what << ", number " << i;
  for (const auto& [ours, theirs] :
       {std::pair(&found.before_end, &expected.before_end), {&found.state, &expected.state}}) {
    ASSERT_EQ(ours->size(), theirs->size()) << what;
    for (const auto& [key, value] : *theirs) EXPECT_TRUE(ours->at(key).equal(value)) << what << ", " << key;
  }
  ASSERT_EQ(found.weights.size(), expected.weights.size()) << what;
  for (size_t i = 0; i < found.weights.size(); ++i)
    EXPECT_TRUE(found.weights[i].tensor.equal(expected.weights[i].tensor)) << what << ", " << found.weights[i].name;
}

// All settings, or a part of their product that covers all pairs.
std::vector<std::vector<int>> rows_of(const std::vector<int>& sizes) {
  if (!full_products()) return cover_pairs(sizes);
  std::vector<std::vector<int>> rows = {{}};
  for (const int size : sizes) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& row : rows)
      for (int value = 0; value < size; ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    rows = std::move(longer);
  }
  return rows;
}

TEST(ZeroOptimizerOffload, ChangesNoBit) {
  const TemporaryDirectory folder;
  // Stage, passes, types, optimizer, groups, norm, frozen, share; then what the full product takes in turn.
  std::vector<int> settings = {4, 3, 3, 4, 2, 4, 2, std::ssize(kShares)};
  const std::vector<int> in_turn = {kCopies, 2};
  if (!full_products()) settings.insert(settings.end(), in_turn.begin(), in_turn.end());
  int number = 0;
  std::vector<int> last;
  Training expected;
  for (std::vector<int> row : rows_of(settings)) {
    if (full_products()) row.insert(row.end(), {number % kCopies, number / kCopies % 2});
    ++number;
    Case c{.stage = row[0],
           .passes = row[1] + 1,
           .types = static_cast<Types>(row[2]),
           .kind = static_cast<Kind>(row[3]),
           .groups = row[4] + 1,
           .norm = static_cast<Norm>(row[5]),
           .freezes = row[6] == 1};
    Share share = kShares[static_cast<size_t>(row[7])];
    if (c.kind == of_torch) share = {share.host + share.disk, 0};
    const std::vector<int> without_share(row.begin(), row.begin() + 7);
    if (std::exchange(last, without_share) != without_share) expected = train(c, {}, /*poison=*/false);
    c.overlap = row[9] == 0;
    expect_same_bits(train(c, offload_of(share, folder.path(), row[8]), /*poison=*/true), expected,
                     fmt::format("host {}, disk {}, copies {}, {}", share.host, share.disk, row[8], c.text()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// From and to where anything is, with other stages and units.
TEST(ZeroOptimizerOffload, StatesGoAnywhere) {
  const TemporaryDirectory folder;
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int from : {0, 1, 2, 3})
    for (const bool half : {false, true}) {
      // In half precision stage 0 rounds sums over ranks that the others do not.
      const int to = half && from % 3 == 0 ? from : 3 - from;
      const auto options = [&](int stage, int64_t unit, const Share& share) {
        // Norms are sums unit by unit.
        return ZeroOptimizerOptions{.stage = stage,
                                    .learning_rate = 1e-2,
                                    .max_norm = 0,
                                    .unit_elements = unit,
                                    .offload = offload_of(share, folder.path(), 2),
                                    .poison = true};
      };
      const auto module_of = [&](int64_t seed) {
        SmallModule module(seed);
        module->to(test_device());
        if (half) module->to(torch::kBFloat16);
        return module;
      };
      SmallModule whole = module_of(1);
      ZeroOptimizer uninterrupted(named(*whole), mesh(), options(from, kUnit, {0, 0}));
      const auto step = [&](SmallModule& module, ZeroOptimizer& optimizer, int64_t number) {
        small_loss(module, small_samples((number * ranks + rank) * kSamples, kSamples)).backward();
        optimizer.step();
      };
      for (int64_t s = 0; s < 6; ++s) step(whole, uninterrupted, s);
      const auto expected = uninterrupted.weights();
      const std::vector<std::pair<Share, Share>> ways = {
          {{0, 0}, {0.6, 0.3}}, {{0.6, 0.3}, {0, 1}}, {{0, 1}, {0.5, 0}}, {{0, 0.4}, {0, 0}}};
      for (const auto& [before, after] : ways) {
        SmallModule first = module_of(1), second = module_of(5);
        {
          const torch::NoGradGuard none;
          second->frozen.copy_(first->frozen.detach().clone());  // is no part of the state
        }
        ZeroOptimizer writes(named(*first), mesh(), options(from, kUnit, before)),
            reads(named(*second), mesh(), options(to, 333, after));
        for (int64_t s = 0; s < 3; ++s) step(first, writes, s);
        step(second, reads, 100);
        reads.load_state_dict(on_all_ranks(writes.state_dict()));
        for (int64_t s = 3; s < 6; ++s) step(second, reads, s);
        const auto found = reads.weights();
        ASSERT_EQ(found.size(), expected.size());
        for (const NamedParameter& p : found) {
          const auto same = std::ranges::find(expected, p.name, &NamedParameter::name);
          EXPECT_TRUE(p.tensor.equal(same->tensor)) << fmt::format(
              "{}, stage {} to {}, {}/{} to {}/{}", p.name, from, to, before.host, before.disk, after.host, after.disk);
        }
      }
    }
}

TEST(ZeroOptimizerOffload, WhatCannotBeIsNamed) {
  const TemporaryDirectory folder;
  const int rank = test_world().rank(), ranks = test_world().size();
  SmallModule module(1);
  module->to(test_device());
  const torch::Tensor before = module->last->weight.detach().clone();
  const auto of = [&](const Offload& offload, const MakeTorchOptimizer& torchs = {}) {
    return error_message(
        [&] { ZeroOptimizer(named(*module), mesh(), {.offload = offload, .torch_optimizer = torchs}); });
  };
  EXPECT_THAT(of({.optimizer = -0.1}), HasSubstr("offload.optimizer is -0.1, expected a fraction from 0 to 1"));
  EXPECT_THAT(of({.optimizer = 1.5}), HasSubstr("offload.optimizer is 1.5, expected a fraction from 0 to 1"));
  EXPECT_THAT(of({.optimizer = NAN}), HasSubstr("offload.optimizer is nan, expected a fraction from 0 to 1"));
  EXPECT_THAT(of({.disk = 2, .disk_folder = folder.path()}), HasSubstr("offload.disk is 2, expected a fraction"));
  EXPECT_THAT(of({.optimizer = 0.75, .disk = 0.5, .disk_folder = folder.path()}),
              HasSubstr("offload.optimizer 0.75 and offload.disk 0.5 are 1.25 together, expected at most 1"));
  EXPECT_THAT(of({.disk = 0.5}), AllOf(HasSubstr("offload.disk 0.5 without a folder"), HasSubstr("disk_folder")));
  EXPECT_THAT(of({.optimizer = 1, .activations = 2}),
              AllOf(HasSubstr("offload.activations 2"), HasSubstr("recompute()")));
  EXPECT_THAT(of({.disk = 1, .disk_folder = folder.path()},
                 [](const auto& groups) { return std::make_shared<torch::optim::RMSprop>(groups[0]); }),
              AllOf(HasSubstr("offload.disk 1 with an optimizer of torch"), HasSubstr("offload.optimizer")));
  // Of one rank, on all.
  const std::filesystem::path file = folder.path() / "file";
  write_file(file, "no folder");
  EXPECT_THAT(of({.disk = 1, .disk_folder = rank == ranks - 1 ? file / "below" : folder.path() / "new"}),
              HasSubstr("file/below: the folder for scratch data cannot be created"));
  if (ranks > 1) {
    EXPECT_THAT(of({.optimizer = rank == 0 ? 0.5 : 1}), HasSubstr("0.5 in host memory"));
  }
  // The parameters are as they were.
  EXPECT_TRUE(module->last->weight.detach().equal(before));
  EXPECT_FALSE(module->last->weight.grad().defined());
  ZeroOptimizer optimizer(named(*module), mesh(), {.offload = {.disk = 1, .disk_folder = folder.path() / "new"}});
  EXPECT_EQ(read_file(file), "no folder");
}

}  // namespace
}  // namespace partita::internal
