// partita tokenize: converts text to the .bin/.idx files used for training.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/megatron_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/text_options.h"
#include "cli/text_progress.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/printable.h"
#include "partita/comm/host_threads.h"
#include "partita/data/tokenize_corpus.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  TextArguments text;
  MegatronArguments megatron;
  EncodeOptions encode;
  SentenceOptions sentences;
  std::string tokenizer, output_prefix, bad_lines = "error";
  bool append_eod = false, split_sentences = false, quiet = false;
  int workers = 0;  // 0: not set
};

void print_report(const TokenizeReport& report) {
  for (const std::string& problem : report.problems) log::warn("skipped: {}", problem);
  const int64_t left_out = report.bad_documents + report.too_long;
  if (const auto more = left_out - static_cast<int64_t>(report.problems.size()); more > 0)
    log::warn("skipped: {} more", more);
  std::string text =
      fmt::format("{} documents, {} tokens from {:.1f} MB in {:.1f} s ({:.1f} MB/s)", report.progress.documents,
                  report.tokens, 1e-6 * static_cast<double>(report.progress.text_bytes), report.progress.seconds,
                  report.progress.megabytes_per_second());
  if (report.empty_documents > 0) text += fmt::format("; {} empty documents", report.empty_documents);
  if (report.bad_documents > 0) text += fmt::format("; {} bad documents skipped", report.bad_documents);
  if (report.too_long > 0)
    text += fmt::format("; {} too long, skipped (--max-line and --max-document set the limits)", report.too_long);
  for (const auto& prefix : report.prefixes) {
    const std::string name = printable_line(prefix.string());
    text += fmt::format("\n{}.bin, {}.idx", name, name);
  }
  put_line("{}", text);
}

void run(const CLI::App& command, const Arguments& arguments) {
  const auto tokenizer = tokenizer_of_arguments(arguments.tokenizer, arguments.megatron);
  TokenizeOptions options;
  options.inputs = expand_inputs(arguments.text.inputs);
  options.output_prefix = arguments.output_prefix;
  options.text = text_options(command, arguments.text);
  options.append_eod = arguments.append_eod;
  options.skip_bad_documents = arguments.bad_lines == "skip";
  if (arguments.split_sentences) options.sentences = arguments.sentences;
  options.encode = arguments.encode;
  options.workers = arguments.workers > 0 ? arguments.workers : default_workers(process_environment());
  auto progress = std::make_unique<TextProgress>("tokenized");
  const TokenizeReport report = tokenize_corpus(
      options, *tokenizer, arguments.quiet ? std::function<void(const TokenizeProgress&)>() : std::ref(*progress));
  progress.reset();  // clears its line before the report
  print_report(report);
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into the .bin/.idx token files that training reads");
  add_text_options(*command, arguments->text);
  add_text(
      *command, "--tokenizer", arguments->tokenizer, "PATH",
      "tokenizer.json, SentencePiece's tokenizer.model, a tiktoken file, GPT-2's vocab.json (next to its merges.txt), "
      "or a folder that holds one of them");
  add_text(*command, "--output-prefix", arguments->output_prefix, "PREFIX",
           "Write PREFIX_KEY_document.bin and .idx for each JSON key (KEY is text for plain text); with "
           "--split-sentences PREFIX_KEY_sentence")
      ->required();
  command->add_flag("--append-eod", arguments->append_eod, "End each document with the end-of-document token");
  command->add_flag("--add-special", arguments->encode.add_special,
                    "Add the tokenizer's special tokens to each text, such as <s> at its beginning");
  command->add_flag("--allow-special", arguments->encode.allow_special,
                    "Read the name of a special token in a text as that token (default: as text)");
  command->add_flag("--split-sentences", arguments->split_sentences,
                    "Make each sentence a sequence, by ICU's rules; the end of a line ends a sentence");
  add_text(*command, "--lang", arguments->sentences.language, "NAME", "Language of the sentences: en, de, ...");
  command->add_flag("--keep-newlines", arguments->sentences.keep_newlines,
                    "Keep the white space between sentences, at the end of the sentence before it");
  add_number(*command, "--workers", arguments->workers, between(1, 1024),
             "Threads; the output is the same for any number (default: PARTITA_NUM_THREADS, else the CPUs that this "
             "process may "
             "use)")
      ->default_str("");
  add_choice(*command, "--bad-lines", arguments->bad_lines, {"error", "skip"},
             "Lines that are not JSON or have no text, and documents that are not UTF-8. error: stop; skip: report the "
             "first ten and count all");
  command->add_flag("--quiet", arguments->quiet, "Show no progress on stderr");
  add_megatron_options(*command, arguments->megatron);
  command->footer(
      "Examples:\n"
      "  partita tokenize --input 'corpus/*.jsonl.zst' --tokenizer tokenizer.json --append-eod --output-prefix "
      "data/corpus\n"
      "  xzcat corpus.jsonl.xz | partita tokenize --input - --tokenizer llama2/tokenizer.model --append-eod "
      "--output-prefix data/corpus\n"
      "Both write data/corpus_text_document.bin and data/corpus_text_document.idx, in Megatron-LM's format. An empty\n"
      "document is a document without tokens. No file appears under these names unless the whole input is valid.");
  command->callback([command, arguments] { run(*command, *arguments); });
}

}  // namespace partita::cli
