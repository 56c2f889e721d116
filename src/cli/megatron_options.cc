#include "cli/megatron_options.h"

#include "cli/options.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "partita/base/error.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr std::string_view kGpt2 = "GPT2BPETokenizer";
// Tokenizer types that the file itself identifies.
constexpr std::array<std::string_view, 8> kOneFile = {
    "HuggingFaceTokenizer", "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "Llama2Tokenizer", "Llama3Tokenizer",
    "MistralTokenizer",     "TikTokenizer",           "MultimodalTokenizer"};

[[noreturn]] void wrong(const std::string& what) { throw UsageError(what); }

}  // namespace

void add_megatron_options(CLI::App& command, MegatronArguments& a) {
  constexpr const char* kGroup = "Megatron-LM's names";
  const auto path = [&](const char* name, std::string& value, const char* help) {
    add_text(command, name, value, "PATH", help)->group(kGroup);
  };
  const auto count = [&](const char* name, int& value, const char* help) {
    add_number(command, name, value, any_number(), help)->group(kGroup)->default_str("");
  };
  add_text(command, "--tokenizer-type", a.type, "NAME",
           "GPT2BPETokenizer (with --vocab-file and --merge-file), or HuggingFaceTokenizer, SentencePieceTokenizer, "
           "Llama2Tokenizer, Llama3Tokenizer, TikTokenizer and the like (with --tokenizer-model)")
      ->group(kGroup);
  path("--vocab-file,--vocab", a.vocab, "Vocabulary of GPT-2");
  path("--merge-file", a.merges, "Merges of GPT-2");
  path("--tokenizer-model", a.model, "Same as --tokenizer: a local file or folder");
  add_text(command, "--dataset-impl", a.dataset_impl, "NAME", "mmap, the only format")->group(kGroup);
  count("--vocab-size", a.vocab_size, "Ignored: taken from the tokenizer");
  count("--partitions", a.partitions, "Ignored: threads share every file, and the order is that of the input");
  count("--log-interval", a.log_interval, "Ignored: progress is shown at intervals of time");
  command
      .add_flag("--keep-sequential-samples", a.keep_sequential_samples,
                "Ignored: the order is always that of the input")
      ->group(kGroup);
}

std::unique_ptr<Tokenizer> tokenizer_of_arguments(const std::string& tokenizer, const MegatronArguments& a) {
  if (a.dataset_impl != "mmap")
    wrong(fmt::format("--dataset-impl {}: an old format that is not written, mmap expected", a.dataset_impl));
  const bool pair = !a.vocab.empty() || !a.merges.empty();
  const int given = (tokenizer.empty() ? 0 : 1) + (a.model.empty() ? 0 : 1) + (pair ? 1 : 0);
  if (given == 0) wrong("no tokenizer: give --tokenizer PATH, or --vocab-file and --merge-file");
  if (given > 1)
    wrong("two tokenizers: give one of --tokenizer, --tokenizer-model, and --vocab-file with --merge-file");
  if (pair) {
    if (!a.type.empty() && a.type != kGpt2)
      wrong(
          fmt::format("--tokenizer-type {} with --vocab-file: {} expected, or --tokenizer-model PATH", a.type, kGpt2));
    if (a.vocab.empty() || a.merges.empty())
      wrong(fmt::format("{} is missing: GPT-2's tokenizer is two files",
                        a.vocab.empty() ? "--vocab-file" : "--merge-file"));
    return load_gpt2(a.vocab, a.merges);
  }
  if (a.type == kGpt2 && !a.model.empty()) wrong("GPT2BPETokenizer takes --vocab-file and --merge-file");
  if (!a.type.empty() && a.type != kGpt2 && std::ranges::find(kOneFile, a.type) == kOneFile.end())
    wrong(fmt::format("--tokenizer-type {} is not read: {} or {} expected", a.type, kGpt2, fmt::join(kOneFile, ", ")));
  return load_tokenizer(tokenizer.empty() ? a.model : tokenizer);
}

}  // namespace partita::cli
