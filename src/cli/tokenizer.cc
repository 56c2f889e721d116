// partita tokenizer: train a byte-level BPE; encode and decode with any tokenizer.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/text_options.h"
#include "cli/text_progress.h"
#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/base/output_check.h"
#include "partita/base/printable.h"
#include "partita/base/timer.h"
#include "partita/comm/host_threads.h"
#include "partita/data/tokenize_corpus.h"
#include "partita/tokenizer/bpe/bpe_trainer.h"
#include "partita/tokenizer/formats/gpt2_files.h"
#include "partita/tokenizer/formats/tokenizer_json.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::cli {
using namespace internal;

namespace {

struct TrainArguments {
  TextArguments text;
  std::string output;
  BpeTrainerOptions options;
  bool quiet = false;
  int workers = 0;  // 0: not set
};

void train(const CLI::App& command, const TrainArguments& arguments) {
  const std::filesystem::path output = arguments.output, merges = output.parent_path() / "merges.txt";
  const bool gpt2_files = output.filename() == "vocab.json";
  // Fail now rather than after hours of reading.
  check(arguments.options);
  if (gpt2_files) check_special_for_gpt2_files(arguments.options.special_tokens);
  const std::vector<std::filesystem::path> inputs = expand_inputs(arguments.text.inputs);
  check_new_file(output, inputs);
  if (gpt2_files) check_new_file(merges, inputs);
  constexpr size_t kBatchBytes = size_t{16} << 20;  // documents counted together, to keep all threads busy
  PretokenCounter counter(arguments.workers > 0 ? arguments.workers : default_workers(process_environment()));
  std::vector<std::string> batch;
  size_t batch_bytes = 0;
  int64_t documents = 0, bytes = 0;
  const auto count_batch = [&] {
    const std::vector<std::string_view> texts(batch.begin(), batch.end());
    counter.add(texts);
    batch.clear();
    batch_bytes = 0;
  };
  auto progress = std::make_unique<TextProgress>("read");
  const auto progress_of_reading =
      arguments.quiet ? std::function<void(const TokenizeProgress&)>() : std::ref(*progress);
  for_each_document(
      inputs, text_options(command, arguments.text),
      [&](std::string_view text) {
        if (text.empty()) return;
        batch.emplace_back(text);
        batch_bytes += text.size();
        bytes += static_cast<int64_t>(text.size());
        ++documents;
        if (batch_bytes >= kBatchBytes) count_batch();
      },
      progress_of_reading);
  count_batch();
  const auto counts = counter.counts();
  fmt::print(stderr, "{} documents, {:.1f} MB of text, {} distinct pretokens\n", documents,
             1e-6 * static_cast<double>(bytes), counts.size());
  progress = std::make_unique<TextProgress>("learned");
  const Timer timer;
  const auto progress_of_learning = [&](int64_t done, int64_t wanted) {
    if (!arguments.quiet)
      progress->show(timer.seconds(), fmt::format("learned {} of {} merges ({:.0f} %)", done, wanted,
                                                  100.0 * static_cast<double>(done) / static_cast<double>(wanted)));
  };
  const BpeModel model = train_bpe(counts, arguments.options, progress_of_learning);
  progress.reset();
  if (gpt2_files) {
    save_gpt2_files(model, output, merges);
  } else {
    save_tokenizer_json(model, output);
  }
  put_line("{}: {} tokens, {} merges", printable_line(output.string()), model.vocab_size(), model.merges.size());
  if (model.vocab_size() < arguments.options.vocab_size) {
    put_line("the text has no more pairs that occur {} times: {} tokens were asked for",
             arguments.options.min_frequency, arguments.options.vocab_size);
  }
}

struct StreamArguments {
  std::string tokenizer;
  bool whole = false, json = false;
  EncodeOptions options;
};

[[noreturn]] void refuse_line(int64_t number, std::string_view expected, const std::string& line) {
  fail("line {} of stdin: {} expected, found \"{}\"", number, expected, line.substr(0, 60));
}

// Each line of stdin is a text (without its line end) or a JSON string; with --whole, all of stdin is one text.
void encode(const StreamArguments& arguments) {
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  const auto encoder = tokenizer->make_encoder(arguments.options);
  std::vector<TokenId> ids;
  const auto print = [&](std::string_view text) {
    ids.clear();
    encoder->encode(text, ids);
    put_line("[{}]", fmt::join(ids, ", "));
  };
  if (arguments.whole) return print(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (!arguments.json) {
      print(line);
      continue;
    }
    const auto text = try_parse_json(line);
    if (!text || !text->is_string()) refuse_line(number, "a JSON string", line);
    print(text->get_ref<const std::string&>());
  }
}

void decode(const StreamArguments& arguments) {
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    std::vector<TokenId> ids;
    try {
      try_parse_json(line).value_or(nullptr).get_to(ids);
    } catch (const nlohmann::json::exception&) {
      refuse_line(number, "ids as a JSON array, such as [15496, 995],", line);
    }
    std::string text = tokenizer->decode(ids);
    if (arguments.json) text = nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    put(arguments.whole ? text : text + "\n");
  }
}

void add_train(CLI::App& parent) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = parent.add_subcommand("train", "Learn a byte-level BPE (as GPT-2's) from text");
  add_text_options(*command, arguments->text);
  add_text(*command, "--output", arguments->output, "FILE",
           "File to create: tokenizer.json (Hugging Face's format); if it is named vocab.json, GPT-2's vocab.json and "
           "merges.txt")
      ->required();
  add_number(*command, "--vocab-size", arguments->options.vocab_size, at_least(1),
             "Number of tokens: 256 bytes, merges and special tokens");
  add_number(*command, "--min-frequency", arguments->options.min_frequency, at_least(1),
             "Merge only pairs that occur at least N times");
  add_list(*command, "--special-tokens", arguments->options.special_tokens, "NAME...",
           "Special tokens, added after all others, which text never produces. The end of a document is <|endoftext|>, "
           "</s> or another usual name, or the only special token");
  add_number(
      *command, "--workers", arguments->workers, between(1, 1024),
      "Threads; the result is the same for any number (default: PARTITA_NUM_THREADS, else the CPUs this process may "
      "use)")
      ->default_str("");
  command->add_flag("--quiet", arguments->quiet, "Show no progress on stderr");
  command->footer(
      "Example:\n  partita tokenizer train --input 'corpus/*.jsonl' --vocab-size 4096 --output tokenizer.json");
  command->callback([command, arguments] { train(*command, *arguments); });
}

// Common options of encode and decode.
CLI::App* add_stream_command(CLI::App& parent, const char* name, const char* help, void (*run)(const StreamArguments&),
                             const std::shared_ptr<StreamArguments>& arguments) {
  CLI::App* command = parent.add_subcommand(name, help);
  add_text(
      *command, "tokenizer", arguments->tokenizer, "PATH",
      "tokenizer.json, tokenizer.model (SentencePiece or tiktoken), *.tiktoken, vocab.json (next to its merges.txt), "
      "or a folder that holds one; FILE:KIND for a tiktoken file whose name does not tell its kind: r50k_base, "
      "gpt2, p50k_base, p50k_edit, cl100k_base, o200k_base, llama3, llama4, qwen")
      ->required();
  command->callback([arguments, run] { run(*arguments); });
  return command;
}

void add_encode(CLI::App& parent) {
  const auto arguments = std::make_shared<StreamArguments>();
  CLI::App* command =
      add_stream_command(parent, "encode", "Turn lines of stdin into arrays of ids on stdout", encode, arguments);
  auto* whole = command->add_flag("--whole", arguments->whole, "Read all of stdin as one text, line ends included");
  command->add_flag("--json", arguments->json, "Read each line as a JSON string, which may contain line ends")
      ->excludes(whole);
  command->add_flag("--allow-special", arguments->options.allow_special,
                    "Read the name of a special token in a text as that token (default: as text)");
  command->add_flag("--add-special", arguments->options.add_special,
                    "Add the tokenizer's special tokens to each text, such as <s> at its beginning");
  command->footer("Example:\n  echo 'Hello world' | partita tokenizer encode tokenizer.json");
}

void add_decode(CLI::App& parent) {
  const auto arguments = std::make_shared<StreamArguments>();
  CLI::App* command = add_stream_command(
      parent, "decode", "Turn arrays of ids, one per line of stdin, into text on stdout", decode, arguments);
  command->add_flag("--whole", arguments->whole, "Write no line end after each text");
  command->add_flag("--json", arguments->json,
                    "Write each text as a JSON string, with U+FFFD for bytes that are not UTF-8");
  command->footer("Example:\n  echo '[15496, 995]' | partita tokenizer decode tokenizer.json");
}

}  // namespace

void add_tokenizer_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenizer", "Train a tokenizer; encode and decode text");
  command->require_subcommand(1);
  add_train(*command);
  add_encode(*command);
  add_decode(*command);
}

}  // namespace partita::cli
