// A small corpus, its tokenizer and token files, and a training configuration, created once per test program with the
// program's own commands.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {

// Sentences of a few made-up words; the same at every call.
std::string small_text(int documents);

class SmallRun {
 public:
  static SmallRun& get();

  [[nodiscard]] std::filesystem::path text() const { return folder_ / "text.jsonl"; }
  [[nodiscard]] std::filesystem::path tokenizer() const { return folder_ / "tokenizer.json"; }
  [[nodiscard]] std::filesystem::path prefix() const { return folder_ / "tokens_text_document"; }
  [[nodiscard]] std::string config() const { return (folder_ / "small.toml").string(); }

 private:
  SmallRun();

  TemporaryDirectory folder_;
};

inline std::string run_in(const std::filesystem::path& folder) { return "--run.directory=" + folder.string(); }

// `partita train`, alone or on several ranks.
std::vector<std::string> train_command(int ranks, const std::filesystem::path& folder,
                                       const std::vector<std::string>& overrides = {});

}  // namespace partita::internal::test
