// Runs that resume in another precision than they were saved in.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

size_t occurrences(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// In the output of `partita checkpoint diff` of one tensor.
double largest_difference(const std::string& output) {
  const std::string before = "elements differ, by at most ";
  const size_t at = output.find(before);
  return at == std::string::npos ? NAN : std::stod(output.substr(at + before.size()));
}

// From `checkpoint` to step 12 on `ranks`, in a new folder.
Result resume(const fs::path& checkpoint, const fs::path& run, int ranks, std::vector<std::string> options) {
  options.push_back("--checkpoint.resume=" + checkpoint.string());
  return partita(train_command(ranks, run, options));
}

// On the way, the states are exactly what `partita checkpoint convert` makes of them: the runs from both are one run.
TEST(ResumePrecision, StatesAreConverted) {
  const TemporaryDirectory folder;
  for (const auto& [from, to, how] : {std::tuple("fp32", "bf16", "from fp32 to bf16, rounded to nearest"),
                                      {"bf16", "fp32", "from bf16 to fp32, exactly"}}) {
    const fs::path run = folder / from, saved = run / "checkpoints/step-00000008";
    make_run(run, {"--precision.compute=bf16", fmt::format("--precision.states={}", from)});
    const fs::path converted = folder / fmt::format("to-{}/step-00000008", to);
    ASSERT_EQ(partita({"checkpoint", "convert", saved.string(), converted.string(), "--states", to}).code, 0);
    int number = 0;
    for (const auto& [ranks, layout] : std::vector<std::pair<int, std::vector<std::string>>>{
             {3, {"--parallel.zero_stage=3", "--train.micro_batch=1"}},
             {4, {"--parallel.tensor=2", "--parallel.pipeline=2", "--train.micro_batch=1"}}}) {
      std::vector<std::string> options = layout;
      options.insert(options.end(), {"--precision.compute=bf16", fmt::format("--precision.states={}", to)});
      const fs::path here = folder / fmt::format("{}-{}", to, ++number),
                     there = folder / fmt::format("{}-{}-c", to, number);
      const Result r = resume(saved, here, ranks, options);
      ASSERT_EQ(r.code, 0) << r.error;
      EXPECT_EQ(occurrences(r.error, "the checkpoint was saved in another precision"), 1U) << r.error;
      EXPECT_THAT(r.error, AllOf(HasSubstr(how), HasSubstr("resuming from " + saved.string())));
      const Result c = resume(converted, there, ranks, options);
      ASSERT_EQ(c.code, 0) << c.error;
      EXPECT_THAT(c.error, Not(HasSubstr("another precision")));
      const Result same = partita({"checkpoint", "diff", here.string(), there.string()});
      EXPECT_EQ(same.code, 0) << same.output << same.error;
    }
  }
}

// They are stored in the compute dtype.
TEST(ResumePrecision, FrozenParametersAreConverted) {
  const TemporaryDirectory folder;
  const std::string freeze = "--train.freeze=embedding.*,layers.1.*";
  for (const char* from : {"fp32", "bf16", "fp16"})
    make_run(folder / from, {freeze, fmt::format("--precision.compute={}", from)});
  for (const auto& [from, to, ranks] :
       {std::tuple("fp32", "bf16", 2), {"fp32", "fp16", 1}, {"bf16", "fp32", 3}, {"fp16", "bf16", 1}}) {
    const fs::path run = folder / fmt::format("{}-{}", from, to);
    const Result r = resume(folder / from / "checkpoints/step-00000008", run, ranks,
                            {freeze, fmt::format("--precision.compute={}", to), "--parallel.zero_stage=3",
                             ranks == 3 ? "--train.micro_batch=1" : "--train.micro_batch=2"});
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_EQ(occurrences(r.error, "the checkpoint was saved in another precision"), 1U) << r.error;
    EXPECT_THAT(r.error, HasSubstr(fmt::format("from {} to {}", from, to)));
    // The weights of the checkpoint, rounded: they are below 0.15, and half precision has at least 8 bits.
    for (const std::string frozen : {"model/embedding.token.weight", "model/layers.1.mlp.up.weight"}) {
      const Result values = partita({"checkpoint", "diff", (folder / from).string(), run.string(), "--only", frozen});
      EXPECT_THAT(values.output, HasSubstr(fmt::format("{}: dtype {} and {}, ", frozen, from, to)));
      EXPECT_LE(largest_difference(values.output), 0.15 * 0x1p-8) << values.output;
      EXPECT_EQ(largest_difference(values.output) == 0, std::string(to) == "fp32") << values.output;
    }
    const auto expected = metrics(folder / from), found = metrics(run);
    ASSERT_EQ(found.size(), 4U);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(found[i].at("loss"), expected[8 + i].at("loss"), 0.03 * expected[8 + i].at("loss"));
  }
}

}  // namespace
}  // namespace partita::internal::test
