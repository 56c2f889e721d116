// GPT-2's own pair of files: vocab.json (encoder.json), printable token -> id, and merges.txt (vocab.bpe), a merge a
// line in rank order after an optional "#version" line.
//
//   BpeModel model = load_gpt2_files("vocab.json", "merges.txt");
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"

namespace partita::internal {

// "<|endoftext|>" is special if no merge makes it. Error: names the file and the line or token.
[[nodiscard]] BpeModel load_gpt2_files(const std::filesystem::path& vocab, const std::filesystem::path& merges);

// Both files, each written in one step. Error: the model has special tokens that these files cannot name.
void save_gpt2_files(const BpeModel& model, const std::filesystem::path& vocab, const std::filesystem::path& merges);
// The same, before there is a model.
void check_special_for_gpt2_files(const std::vector<std::string>& special);

}  // namespace partita::internal
