#include "partita/train/memory_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/train/memory_forecast.h"
#include "partita/train/step_forecast.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;
using testing::Not;

const at::Device kGpu(at::kCUDA, 0);

// Activations of 8 x 64 tokens take about as much as the states.
Config small() {
  Config c;
  c.model = {.layers = 12, .hidden_size = 256, .heads = 4, .vocab_size = 1000, .max_length = 256};
  c.precision.compute = DType::bf16;
  c.train.sequence_length = 256;
  c.train.micro_batch = 8;
  c.train.global_batch = 64;
  c.parallel.layers_per_collective = 1;
  return c;
}

// The configuration with the settings, by way of those that read a command line.
Config with(const Config& c, const MemoryChange& change) {
  std::vector<std::string> overrides;
  for (const std::string& text : change.settings)
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(" with ", at), text.size());
      overrides.push_back("--" + text.substr(at, end - at));
      at = end + 6;
    }
  return load_config({}, overrides, nullptr, c);
}

struct Case {
  Config config;
  int64_t ranks;
  at::Device device;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const at::Device device : {at::Device(at::kCPU), kGpu}) {
    all.push_back({small(), 1, device});
    all.push_back({small(), 4, device});
    Config wide = small();
    wide.precision.compute = DType::fp32;
    wide.train.global_batch = 8;
    all.push_back({wide, 1, device});
    Config sharded = small();
    sharded.parallel.zero_stage = 2, sharded.memory.recompute = Recompute::selective;
    all.push_back({sharded, 2, device});
    Config stages = small();
    stages.parallel.pipeline = 2, stages.parallel.schedule = PipelineSchedule::zb_h1;
    all.push_back({stages, 4, device});
    Config tensor = small();
    tensor.parallel.tensor = 2, tensor.parallel.plan = {{"layers.*.mlp", "replicate"}};
    all.push_back({tensor, 2, device});
    Config disk = small();
    disk.memory.optimizer = "disk:0.3";
    all.push_back({disk, 1, device});
  }
  Config host = small();
  host.memory.optimizer = "host:0.4", host.memory.offload_activations = 4;
  all.push_back({host, 1, kGpu});
  return all;
}

bool dominates(const MemoryChange& a, const MemoryChange& b) {
  return a.bytes <= b.bytes && *a.slower <= *b.slower && (!a.rounds || b.rounds);
}

// Each is what the changed run takes, fits, and is worth its place.
TEST(MemoryChanges, FitAndAreWorthTheirTime) {
  size_t found = 0;
  for (const Case& c : cases()) {
    const int64_t now = forecast_training(c.config, c.ranks, c.device).device_bytes();
    const StepRates rates = default_rates(c.config.precision.compute, c.device);
    const double seconds = forecast_step(c.config, c.ranks, c.device, rates).time.seconds;
    for (const double share : {0.95, 0.7, 0.4}) {
      const MemoryRoom room{.device = static_cast<int64_t>(share * static_cast<double>(now))};
      const std::vector<MemoryChange> changes = memory_changes(c.config, c.ranks, c.device, room, rates);
      EXPECT_FALSE(changes.empty());
      if (changes.front().bytes > room.device) continue;  // nothing fits: the test below
      EXPECT_LE(changes.size(), 3U);
      for (size_t i = 0; i < changes.size(); ++i) {
        const MemoryChange& change = changes[i];
        ++found;
        ASSERT_LE(change.bytes, room.device) << change.text();
        const Config changed = with(c.config, change);
        const MemoryForecast forecast = forecast_training(changed, c.ranks, c.device);
        EXPECT_EQ(forecast.device_bytes(), change.bytes) << change.text();
        EXPECT_EQ(forecast.host, change.host);
        EXPECT_EQ(forecast.disk, change.disk);
        ASSERT_TRUE(change.slower);
        EXPECT_NEAR(forecast_step(changed, c.ranks, c.device, rates).time.seconds, (1 + *change.slower) * seconds,
                    1e-9 * seconds);
        EXPECT_EQ(changed.train.global_batch, c.config.train.global_batch);
        EXPECT_EQ(change.rounds, changed.precision.compute != c.config.precision.compute ||
                                     changed.precision.states != c.config.precision.states);
        for (size_t j = 0; j < changes.size(); ++j) {
          if (i != j) {
            EXPECT_FALSE(dominates(changes[j], change)) << changes[j].text() << "\n" << change.text();
          }
        }
        if (i > 0 && !(i + 1 == changes.size() && !change.rounds)) {
          EXPECT_GE(*change.slower, *changes[i - 1].slower);
        }
      }
    }
  }
  EXPECT_GT(found, 80U);
}

// A smaller fraction, or fewer layers, would not do.
TEST(MemoryChanges, MoveAsLittleAsFits) {
  size_t tried = 0;
  for (const Case& c : cases()) {
    const int64_t now = forecast_training(c.config, c.ranks, c.device).device_bytes();
    const StepRates rates = default_rates(c.config.precision.compute, c.device);
    for (const double share : {0.8, 0.5, 0.3}) {
      const MemoryRoom room{.device = static_cast<int64_t>(share * static_cast<double>(now))};
      for (const MemoryChange& change : memory_changes(c.config, c.ranks, c.device, room, rates)) {
        if (change.bytes > room.device) continue;
        Config less = with(c.config, change);
        const std::string& last = change.settings.back();
        if (last.starts_with("memory.offload_activations")) {
          --less.memory.offload_activations;
        } else if (const size_t digits = last.find(":0."); digits != std::string::npos && last.find(',') == last.npos) {
          const double fraction = std::stod(last.substr(digits + 1));
          EXPECT_NEAR(20 * fraction, std::round(20 * fraction), 1e-9) << last;
          if (fraction < 0.075) continue;
          less.memory.optimizer = fmt::format("{}:{}", last.substr(last.find('=') + 1, 4), fraction - 0.05);
          if (last.find("memory.parameters") != last.npos) less.memory.parameters = less.memory.optimizer;
        } else {
          continue;
        }
        ++tried;
        EXPECT_GT(forecast_training(less, c.ranks, c.device).device_bytes(), room.device) << change.text();
      }
    }
  }
  EXPECT_GT(tried, 10U);
}

// A part of the states fits where all of them do not; nothing is said to fit that the host has no room for.
TEST(MemoryChanges, KnowTheHost) {
  const Config c = small();
  const StepRates rates = default_rates(c.precision.compute, kGpu);
  const int64_t now = forecast_training(c, 1, kGpu).device_bytes();
  Config all = c;
  all.memory.optimizer = "host";
  const int64_t most = forecast_training(all, 1, kGpu).host;
  size_t on_host = 0;
  for (const double device : {0.9, 0.7, 0.5, 0.2})
    for (const double host : {0.0, 0.2, 0.6}) {
      const MemoryRoom room{.device = static_cast<int64_t>(device * static_cast<double>(now)),
                            .host = static_cast<int64_t>(host * static_cast<double>(most))};
      for (const MemoryChange& change : memory_changes(c, 1, kGpu, room, rates)) {
        EXPECT_EQ(change.fits, change.bytes <= room.device && change.host <= room.host) << change.text();
        on_host += change.fits && change.host > 0 && change.disk == 0;
      }
    }
  EXPECT_GT(on_host, 0U);
}

// What costs little comes first: on one GPU, states that the host updates under forward before a pass that is repeated.
TEST(MemoryChanges, CheapestFirst) {
  Config c = small();
  c.train.global_batch = 8;
  StepRates rates = default_rates(DType::bf16, kGpu);
  const MemoryRoom room{.device = forecast_training(c, 1, kGpu).device_bytes() * 9 / 10};
  const auto keeps = [&] {
    const std::vector<MemoryChange> changes = memory_changes(c, 1, kGpu, room, rates);
    return *std::ranges::find(changes, false, &MemoryChange::rounds);
  };
  rates[StepResource::host_memory] = rates[StepResource::link] = 1e15;
  EXPECT_THAT(keeps().settings.back(), HasSubstr("memory.optimizer=host"));
  EXPECT_LE(*keeps().slower, 0) << "the device updates less";
  rates[StepResource::host_memory] = rates[StepResource::link] = 1e6;
  EXPECT_THAT(keeps().settings, testing::Each(Not(HasSubstr("host"))));
}

// Also where all of the cheapest change rounding.
TEST(MemoryChanges, OneKeepsRounding) {
  Config c = small();
  c.precision.compute = DType::fp32;
  const StepRates rates = default_rates(c.precision.compute, kGpu);
  for (const int64_t ranks : {1, 4})
    for (int tenths = 9; tenths >= 3; --tenths) {
      const MemoryRoom room{.device = forecast_training(c, ranks, kGpu).device_bytes() * tenths / 10};
      const std::vector<MemoryChange> changes = memory_changes(c, ranks, kGpu, room, rates);
      EXPECT_TRUE(changes.front().rounds);
      EXPECT_LT(*changes.front().slower, 0) << "bf16 is faster";
      EXPECT_THAT(changes.front().text(), HasSubstr("other rounding"));
      EXPECT_TRUE(std::ranges::any_of(changes, [](const MemoryChange& m) { return !m.rounds; })) << tenths;
    }
}

TEST(MemoryChanges, KeepToTheHost) {
  Config c = small();
  c.train.global_batch = 8;
  MemoryRoom room{.device = forecast_training(c, 1, kGpu).device_bytes() / 3};
  const StepRates rates = default_rates(DType::bf16, kGpu);
  const std::vector<MemoryChange> changes = memory_changes(c, 1, kGpu, room, rates);
  int64_t most = 0;
  for (const MemoryChange& change : changes) most = std::max(most, change.host);
  ASSERT_GT(most, 0);
  room.host = most - 1;
  for (const MemoryChange& change : memory_changes(c, 1, kGpu, room, rates))
    if (change.bytes <= room.device) {
      EXPECT_LT(change.host, most);
    }
}

// Without one of them others may not be possible: weight gradients that are delayed need what is saved.
int64_t bytes_if_possible(const Config& config, const Case& c) {
  try {
    return forecast_training(config, c.ranks, c.device).device_bytes();
  } catch (const Error&) {
    return std::numeric_limits<int64_t>::max();
  }
}

TEST(MemoryChanges, OfWhatNeverFitsIsTheLeast) {
  for (const Case& c : cases()) {
    const std::vector<MemoryChange> changes =
        memory_changes(c.config, c.ranks, c.device, {.device = 1}, default_rates(DType::bf16, c.device));
    ASSERT_GE(changes.size(), 2U);
    EXPECT_THAT(changes.back().settings.front(),
                HasSubstr(fmt::format("parallel.zero_stage=3 on {} ranks", 8 * c.ranks)));
    const int64_t now = forecast_training(c.config, c.ranks, c.device).device_bytes();
    for (const MemoryChange& change : std::span(changes).first(changes.size() - 1)) {
      EXPECT_LT(change.bytes, now);
      EXPECT_FALSE(change.slower);
      EXPECT_EQ(forecast_training(with(c.config, change), c.ranks, c.device).device_bytes(), change.bytes);
      // Each of its settings helps.
      for (size_t i = 0; i < change.settings.size() && change.settings.size() > 1; ++i) {
        MemoryChange fewer = change;
        fewer.settings.erase(fewer.settings.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_GT(bytes_if_possible(with(c.config, fewer), c), change.bytes)
            << change.text() << " without " << change.settings[i];
      }
    }
  }
}

TEST(MemoryChanges, OfTheSmallestRun) {
  Config c = small();
  c.model.layers = 2;
  c.memory.recompute = Recompute::full;
  c.memory.optimizer = "disk";
  c.train.micro_batch = 1, c.train.global_batch = 1;
  c.precision.states = DType::bf16;
  const std::vector<MemoryChange> changes =
      memory_changes(c, 1, at::kCPU, {.device = 1}, default_rates(DType::bf16, at::kCPU));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].settings,
            (std::vector<std::string>{"parallel.zero_stage=3 on 8 ranks", "train.global_batch=8"}));
}

TEST(MemoryChange, ReadsInALine) {
  MemoryChange change{.settings = {"memory.recompute=full"}, .bytes = 3 << 20};
  EXPECT_EQ(change.text(), "memory.recompute=full: 3.0 MiB");
  change.slower = 0.123;
  EXPECT_EQ(change.text(), "memory.recompute=full: 3.0 MiB, steps about 12% longer");
  change.settings.emplace_back("memory.optimizer=host:0.3,disk:0.7");
  change.host = 1 << 20, change.disk = 2 << 20;
  change.slower = -0.05, change.rounds = true;
  EXPECT_EQ(change.text(),
            "memory.recompute=full with memory.optimizer=host:0.3,disk:0.7: 3.0 MiB and 1.0 MiB of host memory and 2.0 "
            "MiB on disk, steps about 5% shorter, other rounding");
  change = {.settings = {"x"}, .bytes = 1, .slower = -0.001};
  EXPECT_EQ(change.text(), "x: 1 B, steps about as long");
}

}  // namespace
}  // namespace partita::internal
