// Runs the commands of docs/finetune.md in order on a small model.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "partita/base/file.h"
#include "tests/cli/small_run.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Finetune : public ShellTest {
 protected:
  // What `partita eval --json` printed last.
  static std::optional<nlohmann::json> evaluation(const std::string& output) {
    std::optional<nlohmann::json> last;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("{\"")) last = nlohmann::json::parse(line);
    return last;
  }
  double loss_of(const std::string& model) {
    const Result r = shell("partita eval " + model + " --data test.jsonl --json");
    EXPECT_EQ(r.code, 0) << r.error;
    return evaluation(r.output).value().at("loss");
  }
};

TEST_F(Finetune, TheTutorialWorksAsWritten) {
  // What a reader has downloaded.
  ASSERT_EQ(partita({"train", SmallRun::get().config(), run_in(folder_ / "base"), "--model.max_length=64",
                     "--train.steps=4", "--checkpoint.every=0"})
                .code,
            0);
  must("mkdir models && partita export base models/gpt2");

  for (const std::string& block : shell_blocks(read_file(PARTITA_SOURCE_DIR "/docs/finetune.md"))) must(block);

  const double before = loss_of("models/gpt2"), full = loss_of("runs/sums"), lora = loss_of("runs/sums-lora");
  EXPECT_LT(full, before - 0.5);
  EXPECT_LT(lora, before - 0.1);
  EXPECT_NEAR(loss_of("runs/sums-zero3"), full, 1e-4 * full);
  EXPECT_NEAR(loss_of("models/gpt2-sums"), full, 1e-6 * full);
  EXPECT_NEAR(loss_of("models/gpt2-sums-lora"), lora, 1e-5 * lora);
  for (const char* file :
       {"models/gpt2-sums/config.json", "models/gpt2-sums/model.safetensors", "models/gpt2-sums/tokenizer.json",
        "adapters/sums/adapter_model.safetensors", "adapters/sums/adapter_config.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / file)) << file;
  }
}

}  // namespace
}  // namespace partita::internal::test
