// Options of Megatron-LM's preprocess_data.py, so that its command lines work here: tokenizer options, and options that
// are ignored or rejected.
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

// Adds the options in their own group. `arguments` must outlive the command.
void add_megatron_options(CLI::App& command, MegatronArguments& arguments);

// `tokenizer` is the path given with --tokenizer, or empty. Error: no tokenizer or two, an unsupported kind, a missing
// file.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_of_arguments(const std::string& tokenizer,
                                                                const MegatronArguments& arguments);

}  // namespace partita::cli
