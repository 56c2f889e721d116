#include "tests/cli/small_run.h"

#include <fmt/format.h>

#include <random>
#include <stdexcept>

#include "partita/base/file.h"

namespace partita::internal::test {

namespace {

void must(const Result& r) {
  if (r.code != 0) throw std::runtime_error(r.error + r.output);
}

}  // namespace

std::string small_text(int documents) {
  const std::vector<std::string> words = {"river",  "stone", "light",    "of",     "the",  "and",
                                          "walked", "over",  "mountain", "slowly", "again"};
  std::mt19937 random(11);
  std::string lines;
  for (int d = 0; d < documents; ++d) {
    lines += "{\"text\": \"";
    for (unsigned n = 20 + random() % 40; n > 0; --n) lines += words[random() % words.size()] + (n == 1 ? "." : " ");
    lines += "\"}\n";
  }
  return lines;
}

SmallRun& SmallRun::get() {
  static SmallRun run;
  return run;
}

SmallRun::SmallRun() {
  write_file(text(), small_text(120));
  must(partita(
      {"tokenizer", "train", "--input", text().string(), "--vocab-size", "300", "--output", tokenizer().string()}));
  must(partita({"tokenize", "--input", text().string(), "--tokenizer", tokenizer().string(), "--append-eod", "--quiet",
                "--output-prefix", (folder_ / "tokens").string()}));
  write_file(config(), fmt::format(R"([model]
layers = 3
hidden_size = 28
heads = 2
max_length = 32
dropout = 0.1
embedding_dropout = 0.1
attention_dropout = 0.1
[data]
path = "{}"
tokenizer = "{}"
split = "80,20,0"
[train]
steps = 12
sequence_length = 32
micro_batch = 2
global_batch = 12
device = "cpu"
[optimizer]
learning_rate = 3e-3
min_learning_rate = 3e-4
[parallel]
timeout_seconds = 30
layers_per_collective = 1
[eval]
every = 6
batches = 1
[checkpoint]
every = 4
[log]
every = 4
)",
                                   prefix().string(), tokenizer().string()));
}

std::vector<std::string> train_command(int ranks, const std::filesystem::path& folder,
                                       const std::vector<std::string>& overrides) {
  std::vector<std::string> command;
  if (ranks > 1) command = {"launch", "-n", std::to_string(ranks), "--"};
  command.insert(command.end(), {"train", SmallRun::get().config(), run_in(folder)});
  command.insert(command.end(), overrides.begin(), overrides.end());
  return command;
}

}  // namespace partita::internal::test
