#include "cli/megatron_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "partita/base/error.h"

namespace {

namespace fs = std::filesystem;
using partita::UsageError;

constexpr std::string_view kGpt2 = "GPT2BPETokenizer";
// Of these the file alone says what they are.
constexpr std::array<std::string_view, 8> kOneFile = {
    "HuggingFaceTokenizer", "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "Llama2Tokenizer", "Llama3Tokenizer",
    "MistralTokenizer",     "TikTokenizer",           "MultimodalTokenizer"};

[[noreturn]] void wrong(const std::string& what) { throw UsageError(what); }

}  // namespace

void add_megatron_options(CLI::App& command, MegatronArguments& a) {
  constexpr const char* kGroup = "Megatron-LM's names";
  const auto option = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kGroup);
  };
  option("--tokenizer-type", a.type,
         "GPT2BPETokenizer (with --vocab-file and --merge-file), or HuggingFaceTokenizer, SentencePieceTokenizer, "
         "Llama2Tokenizer, Llama3Tokenizer, TikTokenizer and their like (with --tokenizer-model)")
      ->type_name("NAME");
  option("--vocab-file,--vocab", a.vocab, "GPT-2's vocabulary")->type_name("PATH");
  option("--merge-file", a.merges, "GPT-2's merges")->type_name("PATH");
  option("--tokenizer-model", a.model, "As --tokenizer: a file or folder of this machine")->type_name("PATH");
  option("--dataset-impl", a.dataset_impl, "mmap, the format of today")->type_name("NAME");
  option("--vocab-size", a.vocab_size, "Passed over: the tokenizer knows")->type_name("N");
  option("--partitions", a.partitions, "Passed over: threads share every file, and the order is the input's")
      ->type_name("N");
  option("--log-interval", a.log_interval, "Passed over: progress is shown by time")->type_name("N");
  command
      .add_flag("--keep-sequential-samples", a.keep_sequential_samples, "Passed over: the order always is the input's")
      ->group(kGroup);
}

std::unique_ptr<partita::Tokenizer> tokenizer_of_arguments(const std::string& tokenizer, const MegatronArguments& a) {
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
    return partita::load_gpt2(a.vocab, a.merges);
  }
  if (a.type == kGpt2 && !a.model.empty()) wrong("GPT2BPETokenizer takes --vocab-file and --merge-file");
  if (!a.type.empty() && a.type != kGpt2 && std::ranges::find(kOneFile, a.type) == kOneFile.end())
    wrong(fmt::format("--tokenizer-type {} is not read: {} or {} expected", a.type, kGpt2, fmt::join(kOneFile, ", ")));
  const std::string& path = tokenizer.empty() ? a.model : tokenizer;
  if (!a.model.empty() && !fs::exists(path) && path.find(':') == std::string::npos)
    partita::fail(
        "--tokenizer-model {}: no such file or folder: names of a hub are not looked up, give a tokenizer.json", path);
  return partita::load_tokenizer(path);
}
