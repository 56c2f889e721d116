// The matmul tuning file across runs: created, reused, and rejected on another device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <numeric>

#include "partita/base/file.h"
#include "partita/comm/world.h"
#include "tests/profile/tuner_case.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using test::TunerCase;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr const char* kCard = "cuBLASLt 130100, NVIDIA H100";

class Tuner : public testing::Test {
 protected:
  MatmulTuner make(TunerCase& card, bool tune, const std::filesystem::path& shared = {}) {
    return MatmulTuner(*host_, card.library(),
                       {.kept = kept_, .shared = shared, .tune = tune, .record_steps = card.record_steps()});
  }
  // What a run with tuning on prints as warnings, and where it leaves things.
  std::string run(TunerCase& card, bool tune = true, const std::filesystem::path& shared = {}) {
    testing::internal::CaptureStderr();
    {
      MatmulTuner tuner = make(card, tune, shared);
      card.run(tuner);
      EXPECT_FALSE(tuner.running());
      EXPECT_EQ(tuner.products(), card.in_use.size());
    }
    return testing::internal::GetCapturedStderr();
  }
  static std::vector<MatmulChoice> choices(const MatmulTuning& tuning) {
    std::vector<MatmulChoice> all;
    for (const TunedProduct& product : tuning.products) all.push_back(product.choice);
    return all;
  }
  [[nodiscard]] MatmulTuning file() const { return parse_matmul_tuning(read_file(kept_), "kept"); }
  [[nodiscard]] int64_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()), std::filesystem::directory_iterator());
  }

  TemporaryDirectory folder_;
  std::filesystem::path kept_ = folder_ / "matmul_tuning.json";
  World world_ = World::connect({});
  std::unique_ptr<Communicator> host_ = world_.group("tuning", {0});
};

TEST_F(Tuner, HasNothingToDoWithoutALibrary) {
  TunerCase none(matmul_library(at::kCPU));
  EXPECT_EQ(run(none), "");
  EXPECT_EQ(none.uses, 0);
  EXPECT_TRUE(none.rounds.empty());
  EXPECT_EQ(files(), 0);
  EXPECT_THAT(run(none, false, folder_ / "shared.json"), HasSubstr("shared.json is not used"));
}

TEST_F(Tuner, MeasuresBehindTheFirstStepsAndKeepsTheChoice) {
  TunerCase card(kCard);
  const MatmulTuner before = make(card, true);
  EXPECT_TRUE(before.running());
  EXPECT_EQ(card.uses, 0);
  card.recorded.clear();
  EXPECT_EQ(files(), 0);
  EXPECT_THAT(run(card), HasSubstr("1 of 2 matmuls use a faster algorithm now: 16.7% less time"));
  std::vector<int> rounds(MatmulTuner::kCandidates * MatmulTuner::kRounds);
  std::iota(rounds.begin(), rounds.end(), 0);
  EXPECT_EQ(card.rounds, rounds);
  EXPECT_EQ(card.ended, MatmulTuner::kSteps);
  EXPECT_EQ(card.uses, 1);
  EXPECT_EQ(card.in_use, choices(card.tuning()));
  // While steps are measured they are not recorded.
  EXPECT_THAT(card.recorded, ElementsAre(Pair(0, false), Pair(MatmulTuner::kSteps, true)));
  EXPECT_EQ(file(), card.tuning());
  EXPECT_EQ(files(), 1);
}

TEST_F(Tuner, TakesItsOwnChoiceAgainAndLeavesTheFileAlone) {
  TunerCase first(kCard);
  (void)run(first);
  for (const bool tune : {true, false}) {
    const auto written = std::filesystem::last_write_time(kept_);
    TunerCase again(kCard);
    again.times[0].milliseconds = {{1}, {9}};  // would choose otherwise
    write_file(folder_ / "shared.json", to_json({.library = kCard, .products = {{{"9 9 9", "z"}, 1, 2}}}));
    EXPECT_THAT(run(again, tune, folder_ / "shared.json"), HasSubstr("reusing the tuned algorithms of 2 matmuls"));
    EXPECT_TRUE(again.rounds.empty());
    EXPECT_TRUE(again.recorded.empty());
    EXPECT_EQ(again.in_use, choices(first.tuning()));
    EXPECT_EQ(std::filesystem::last_write_time(kept_), written);
    EXPECT_EQ(file(), first.tuning());
  }
}

TEST_F(Tuner, TakesAnotherRunsChoiceAndKeepsIt) {
  TunerCase card(kCard);
  const MatmulTuning shared{.library = kCard, .products = {{{"64 32 8", "a7"}, 12.5, 13.25}}};
  write_file(folder_ / "shared.json", to_json(shared));
  EXPECT_THAT(run(card, true, folder_ / "shared.json"), HasSubstr("reusing the tuned algorithms of 1 matmuls"));
  EXPECT_EQ(card.in_use, choices(shared));
  EXPECT_TRUE(card.rounds.empty());
  EXPECT_EQ(file(), shared);
}

TEST_F(Tuner, SaysThatTheOtherFileIsNotThere) {
  TunerCase card(kCard);
  EXPECT_THAT(run(card, false, folder_ / "nowhere.json"), HasSubstr("nowhere.json does not exist"));
  EXPECT_EQ(card.uses, 0);
  EXPECT_EQ(files(), 0);
  // Nor is it missed where the run has a choice.
  (void)run(card);
  EXPECT_THAT(run(card, false, folder_ / "nowhere.json"), Not(HasSubstr("nowhere.json")));
}

// Another card, or the same with another version of the library.
TEST_F(Tuner, ForeignChoicesAreNotUsed) {
  for (const char* other : {"cuBLASLt 130100, NVIDIA H200", "cuBLASLt 130200, NVIDIA H100", ""}) {
    const MatmulTuning foreign{.library = other, .products = {{{"64 32 8", "a0"}, 1, 2}}};
    write_file(kept_, to_json(foreign));
    TunerCase card(kCard);
    EXPECT_THAT(run(card, false), HasSubstr(fmt::format("is not used: it is of {}, this is {}", other, kCard)));
    EXPECT_EQ(card.uses, 0);
    EXPECT_EQ(file(), foreign) << "left as it was";
    EXPECT_THAT(run(card, true), HasSubstr("is not used"));
    EXPECT_EQ(card.in_use, choices(card.tuning()));
    EXPECT_EQ(file(), card.tuning());
  }
  // One that is of no use does not hide another that is.
  write_file(kept_, to_json({.library = "cuBLASLt 1, other", .products = {}}));
  TunerCase card(kCard);
  write_file(folder_ / "shared.json", to_json(card.tuning()));
  EXPECT_THAT(run(card, true, folder_ / "shared.json"), HasSubstr("reusing the tuned algorithms"));
  EXPECT_TRUE(card.rounds.empty());
  EXPECT_EQ(file(), card.tuning());
}

TEST_F(Tuner, DamagedFilesAreSaidAndMadeAnew) {
  const std::string whole = to_json(TunerCase(kCard).tuning());
  const size_t end = whole.size() - 1;  // behind which is a line's end alone
  for (size_t cut = 0; cut < end; cut += 7) {
    write_file(kept_, whole.substr(0, cut));
    TunerCase card(kCard);
    EXPECT_THAT(run(card, false),
                AllOf(HasSubstr("matmul_tuning.json:"), HasSubstr("not valid JSON"), HasSubstr("it is not used")))
        << cut;
    EXPECT_EQ(card.uses, 0) << cut;
    EXPECT_EQ(read_file(kept_).size(), cut);
  }
  TunerCase card(kCard);
  (void)run(card);
  EXPECT_EQ(read_file(kept_), whole);
  // A byte that is not what it was: another choice, another library or no choice, but no crash.
  for (size_t at = 0; at < end; at += 5) {
    std::string text = whole;
    text[at] = static_cast<char>(text[at] ^ 0xA5);
    write_file(kept_, text);
    TunerCase after(kCard);
    (void)run(after, false);
    EXPECT_LE(after.uses, 1) << at;
  }
}

// Who reads meanwhile, or a machine that loses power, has the old file or the new one.
TEST_F(Tuner, ReplacesTheFileInOneStep) {
  const MatmulTuning old{.library = "cuBLASLt 1, other", .products = {}};
  write_file(kept_, to_json(old));
  std::filesystem::create_hard_link(kept_, folder_ / "held");
  TunerCase card(kCard);
  (void)run(card);
  EXPECT_EQ(file(), card.tuning());
  EXPECT_EQ(parse_matmul_tuning(read_file(folder_ / "held"), "held"), old);
  EXPECT_EQ(files(), 2);
}

// Rank 0 alone writes: an error would leave the others behind.
TEST_F(Tuner, GoesOnWhereItsFileCannotBeWritten) {
  kept_ = folder_ / "nowhere" / "matmul_tuning.json";
  TunerCase card(kCard);
  MatmulTuner tuner = make(card, true);
  card.run(tuner);
  EXPECT_EQ(card.in_use, choices(card.tuning()));
  EXPECT_EQ(files(), 0);
}

TEST_F(Tuner, KeepsNoFileWithoutAName) {
  kept_.clear();
  TunerCase card(kCard);
  (void)run(card);
  EXPECT_EQ(card.in_use, choices(card.tuning()));
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace partita::internal
