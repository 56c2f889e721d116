#include "partita/data/index_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "partita/base/file.h"
#include "partita/data/gpt_dataset.h"
#include "partita/data/indexed_writer.h"
#include "tests/data/sample.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
namespace fs = std::filesystem;

// Two arrays that depend on `seed`, of sizes that are no multiples of 8; counts how often they are made.
struct Builder {
  uint32_t seed = 1;
  int built = 0;

  IndexCache::Build build() {
    return [this] {
      ++built;
      auto numbers = std::make_shared<std::pair<std::vector<int64_t>, std::vector<int16_t>>>();
      std::mt19937 random(seed);
      for (int i = 0; i < 101; ++i) numbers->first.push_back(static_cast<int64_t>(random()));
      for (int i = 0; i < 33; ++i) numbers->second.push_back(static_cast<int16_t>(random()));
      const SharedArrays arrays{numbers,
                                {std::as_bytes(std::span(numbers->first)), std::as_bytes(std::span(numbers->second))}};
      return arrays;
    };
  }
};

void expect_same(const SharedArrays& a, const SharedArrays& b) {
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (size_t i = 0; i < a.arrays.size(); ++i) EXPECT_TRUE(std::ranges::equal(a.arrays[i], b.arrays[i])) << i;
}

class Cache : public testing::Test {
 protected:
  TemporaryDirectory folder_;
  IndexCache cache_{folder_ / "deep" / "cache"};
  Builder builder_;
  SharedArrays get(const std::string& description = "seed 1") {
    return cache_.get("train", description, 2, builder_.build());
  }
};

TEST_F(Cache, ArraysAreMadeOnce) {
  const SharedArrays first = get(), second = get();
  EXPECT_EQ(builder_.built, 1);
  expect_same(first, builder_.build()());
  expect_same(first, second);
  for (const auto array : second.arrays) EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 8, 0U);
  EXPECT_EQ(second.as<int64_t>(0).size(), 101U);
  EXPECT_EQ(second.as<int16_t>(1).size(), 33U);

  Builder other{.seed = 2};
  expect_same(cache_.get("train", "seed 2", 2, other.build()), other.build()());
  expect_same(get(), first);
  EXPECT_EQ(builder_.built, 2);  // once above for the comparison
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cache_.folder())) names.push_back(entry.path().extension());
  EXPECT_THAT(names, ElementsAre(".order", ".order"));  // nothing temporary
}

TEST_F(Cache, WithoutAFolderEveryCallBuilds) {
  const IndexCache none;
  (void)none.get("train", "", 2, builder_.build());
  (void)none.get("train", "", 2, builder_.build());
  EXPECT_EQ(builder_.built, 2);
}

TEST_F(Cache, DamagedAndForeignFilesAreMadeAnew) {
  const SharedArrays expected = builder_.build()();
  const fs::path path = cache_.file_of("train", "seed 1");
  (void)get();
  const std::string good = read_file(path);
  std::mt19937 random(3);
  const auto expect_rebuilt = [&](const std::string& content) {
    { std::ofstream(path, std::ios::binary | std::ios::trunc) << content; }
    builder_.built = 0;
    expect_same(get(), expected);
    EXPECT_EQ(builder_.built, 1) << content.size();
    EXPECT_TRUE(read_file(path) == good);
  };
  for (size_t size : {0UL, 1UL, 16UL, 24UL, 39UL, 40UL, 60UL, good.size() - 1}) expect_rebuilt(good.substr(0, size));
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    expect_rebuilt(bad);
  }
  expect_rebuilt(good + std::string(8, '\0'));
  expect_rebuilt("an order of something else");
  // Whole, but of another description: as if hashes had met.
  Builder other{.seed = 2};
  (void)cache_.get("train", "seed 2", 2, other.build());
  expect_rebuilt(read_file(cache_.file_of("train", "seed 2")));
}

TEST_F(Cache, FoldersThatCannotBeWrittenCostNoMoreThanTheTime) {
  write_file(folder_ / "file", "x");
  const IndexCache in_a_file(folder_ / "file" / "cache");
  expect_same(in_a_file.get("train", "seed 1", 2, builder_.build()), builder_.build()());
  const FileSizeLimit full(100);
  expect_same(get(), builder_.build()());
  EXPECT_TRUE(fs::is_empty(cache_.folder()));
}

// Builds in `count` processes at once and returns how many builds ended, and the seconds that all took together.
std::pair<int, double> build_in_processes(const IndexCache& cache, int count, std::chrono::milliseconds build_time) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (int p = 0; p < count; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      Builder builder;
      const SharedArrays expected = Builder{}.build()();
      const SharedArrays found = cache.get("train", "seed 1", 2, [&] {
        std::this_thread::sleep_for(build_time);
        return builder.build()();
      });
      _exit(std::ranges::equal(found.arrays[0], expected.arrays[0]) ? builder.built : 99);
    }
    children.push_back(pid);
  }
  int built = 0;
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    built += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  }
  return {built, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

// Processes that begin together: one of them builds, all have the same.
TEST_F(Cache, OneProcessOfSeveralBuilds) {
  EXPECT_EQ(build_in_processes(cache_, 4, std::chrono::milliseconds(100)).first, 1);
}

// Where nothing can be kept, ranks build beside each other and not in turn.
TEST_F(Cache, WhereNothingCanBeKeptAllBuildAtOnce) {
  write_file(folder_ / "file", "x");
  const auto [built, seconds] =
      build_in_processes(IndexCache(folder_ / "file" / "cache", false), 6, std::chrono::milliseconds(500));
  EXPECT_EQ(built, 6);
  EXPECT_LT(seconds, 2.0);
  // A full disk: the first one finds out, the others then build at once.
  const FileSizeLimit full(100);
  const IndexCache cache(folder_ / "cache", false);
  const auto [again, later] = build_in_processes(cache, 6, std::chrono::milliseconds(500));
  EXPECT_EQ(again, 6);
  EXPECT_LT(later, 2.5);
  EXPECT_TRUE(fs::is_empty(cache.folder()));
}

// Another machine that does not see the lock has put its file there meanwhile: it stays, and is what all map.
TEST_F(Cache, AFileThatIsThereIsNotReplaced) {
  const fs::path path = cache_.file_of("train", "seed 1");
  struct stat theirs {};
  const SharedArrays ours = cache_.get("train", "seed 1", 2, [&] {
    const IndexCache elsewhere(folder_ / "elsewhere");
    (void)elsewhere.get("train", "seed 1", 2, Builder{}.build());
    fs::rename(elsewhere.file_of("train", "seed 1"), path);
    EXPECT_EQ(stat(path.c_str(), &theirs), 0);
    return builder_.build()();
  });
  expect_same(ours, builder_.build()());
  struct stat now {};
  ASSERT_EQ(stat(path.c_str(), &now), 0);
  EXPECT_EQ(now.st_ino, theirs.st_ino);
  const fs::directory_iterator entries(cache_.folder());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(Cache, WhatAKilledBuilderLeftIsRemoved) {
  const fs::path path = cache_.file_of("train", "seed 1");
  fs::create_directories(cache_.folder());
  for (const char* ending : {".4194399-0.tmp", ".lock"}) write_file(path.string() + ending, "");
  (void)get();
  EXPECT_EQ(builder_.built, 1);
  const fs::directory_iterator entries(cache_.folder());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

class Prolonged : public testing::Test {
 protected:
  std::shared_ptr<const IndexedDataset> write(const fs::path& name, const std::vector<int32_t>& lengths) {
    IndexedWriter writer(folder_ / name, TokenType::i32);
    for (size_t s = 0; s < lengths.size(); ++s) {
      std::vector<int32_t> tokens(static_cast<size_t>(lengths[s]));
      std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(100 * s));
      writer.add_document(tokens);
    }
    writer.close();
    return std::make_shared<const IndexedDataset>(folder_ / name);
  }
  TemporaryDirectory folder_;
};

// The samples that a run has read stay as they were, whenever and by however much it is prolonged; every epoch that is
// added has its own order; and the kept order is the one made in memory.
TEST_F(Prolonged, SamplesStay) {
  std::mt19937 random(23);
  int grown = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<int32_t> lengths(2 + random() % 9);
    for (int32_t& length : lengths) length = static_cast<int32_t>(random() % 25);
    lengths[0] = 9;
    const auto tokens = write("d", lengths);
    const SequenceRange all{0, tokens->sequences()};
    const GptIndexSpec spec{.sequence_length = 7, .samples = static_cast<int64_t>(random() % 60) + 1, .seed = 4};
    const IndexCache cache(folder_ / "cache");
    std::vector<int64_t> plans;
    std::unique_ptr<GptDataset> shorter;
    for (int plan = 0; plan < 4; ++plan) {
      auto longer =
          std::make_unique<GptDataset>(tokens, all, spec, GptDataset::Options{Documents::joined, cache, plans});
      const GptDataset in_memory(tokens, all, spec, GptDataset::Options{Documents::joined, {}, plans});
      ASSERT_EQ(longer->size(), in_memory.size());
      ASSERT_GE(longer->size(), plans.empty() ? spec.samples : plans.back());
      for (int64_t k = 0; k < longer->size(); ++k) {
        const Sample sample = read_sample(*longer, k);
        ASSERT_EQ(sample, read_sample(in_memory, k)) << k;
        if (shorter && k < shorter->size()) {
          ASSERT_EQ(sample, read_sample(*shorter, k)) << k;
        }
      }
      grown += shorter && longer->size() > shorter->size() ? 1 : 0;
      plans.push_back(longer->size() - 5 + static_cast<int64_t>(random() % 90));
      shorter = std::move(longer);
    }
  }
  EXPECT_GT(grown, 40);
}

TEST_F(Prolonged, TheKeyIsEverythingThatMatters) {
  const IndexCache cache(folder_ / "cache");
  const auto files = [&] {
    const fs::directory_iterator entries(cache.folder());
    return std::distance(begin(entries), end(entries));
  };
  const auto a = write("a", {10, 20, 30, 40, 50});
  const GptIndexSpec spec{.split = "train", .sequence_length = 7, .samples = 30, .seed = 4};
  int64_t expected = 0;
  const auto open = [&](const auto& tokens, SequenceRange range, const GptIndexSpec& of) {
    const GptDataset dataset(tokens, range, of, GptDataset::Options{Documents::joined, cache, {}});
    const GptDataset fresh(tokens, range, of);
    EXPECT_TRUE(std::ranges::equal(dataset.index().shuffle, fresh.index().shuffle));
    EXPECT_TRUE(std::ranges::equal(dataset.index().starts, fresh.index().starts));
    EXPECT_EQ(files(), expected);
  };
  const auto changed = [&spec](auto change) {
    GptIndexSpec other = spec;
    change(other);
    return other;
  };
  ++expected, open(a, {0, 5}, spec);
  open(a, {0, 5}, spec);
  ++expected, open(a, {0, 4}, spec);
  ++expected, open(a, {1, 5}, spec);
  ++expected, open(a, {0, 5}, changed([](GptIndexSpec& s) { s.seed = 5; }));
  ++expected, open(a, {0, 5}, changed([](GptIndexSpec& s) { s.samples = 31; }));
  ++expected, open(a, {0, 5}, changed([](GptIndexSpec& s) { s.sequence_length = 8; }));
  ++expected, open(a, {0, 5}, changed([](GptIndexSpec& s) { s.split = "valid"; }));
  ++expected, open(write("b", {10, 20, 30, 50, 40}), {0, 5}, spec);  // the same size, other lengths
  open(write("c", {10, 20, 30, 40, 50}), {0, 5}, spec);              // the same lengths: the same order
}

}  // namespace
}  // namespace partita::internal
