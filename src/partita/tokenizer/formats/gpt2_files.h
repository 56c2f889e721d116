// GPT-2's pair of files: vocab.json (encoder.json), which maps printable tokens to ids, and merges.txt (vocab.bpe),
// with one merge per line in rank order after an optional "#version" line.
//
//   BpeModel model = load_gpt2_files("vocab.json", "merges.txt");
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"

namespace partita::internal {

// "<|endoftext|>" is special if no merge produces it. Error: names the file and the line or token.
[[nodiscard]] BpeModel load_gpt2_files(const std::filesystem::path& vocab, const std::filesystem::path& merges);

// Writes both files, each atomically. Error: the model has special tokens that these files cannot name.
void save_gpt2_files(const BpeModel& model, const std::filesystem::path& vocab, const std::filesystem::path& merges);
// The same check, before a model exists.
void check_special_for_gpt2_files(const std::vector<std::string>& special);

}  // namespace partita::internal
