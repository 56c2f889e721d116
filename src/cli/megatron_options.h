// Megatron-LM's options of preprocess_data.py, so that its command lines work here: what names the tokenizer, and what
// has no meaning here and is passed over or refused.
//
//   MegatronArguments megatron;
//   add_megatron_options(*command, megatron);
//   const auto tokenizer = tokenizer_of_arguments(arguments.tokenizer, megatron);
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "partita/tokenizer/tokenizer.h"

namespace partita::cli {
struct MegatronArguments {
  std::string type, vocab, merges, model;  // --tokenizer-type, --vocab-file, --merge-file, --tokenizer-model
  std::string dataset_impl = "mmap";
  int partitions = 1, log_interval = 1000, vocab_size = 0;
  bool keep_sequential_samples = false;
};

// The options, in a group of their own. `arguments` outlives the command.
void add_megatron_options(CLI::App& command, MegatronArguments& arguments);

// `tokenizer` is the path of --tokenizer, or empty. Error: none or two of them, a kind that is not read, a file
// missing.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_of_arguments(const std::string& tokenizer,
                                                                const MegatronArguments& arguments);

}  // namespace partita::cli
