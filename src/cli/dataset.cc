// partita dataset: inspect, verify, merge and index .bin/.idx token files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/dataset_index.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/base/output_check.h"
#include "partita/base/printable.h"
#include "partita/data/indexed_dataset.h"
#include "partita/data/indexed_writer.h"
#include "partita/data/token_sums.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::cli {
using namespace internal;

namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string prefix, tokenizer;
  int64_t documents = 3, first = 0;
};

struct MergeArguments {
  std::string output;
  std::vector<std::string> inputs;
  std::string named_output;  // names used by Megatron-LM's merge_datasets.py
  std::vector<std::string> named_inputs;
};

void print_summary(const IndexedDataset& dataset) {
  int64_t shortest = dataset.sequences() > 0 ? dataset.length(0) : 0, longest = 0;
  for (int64_t s = 0; s < dataset.sequences(); ++s) {
    shortest = std::min(shortest, dataset.length(s));
    longest = std::max(longest, dataset.length(s));
  }
  const double mean =
      dataset.sequences() > 0 ? static_cast<double>(dataset.tokens()) / static_cast<double>(dataset.sequences()) : 0;
  put_line("{}: {} documents, {} sequences, {} tokens of {} ({})", printable_line(dataset.prefix().string()),
           dataset.documents(), dataset.sequences(), dataset.tokens(), name_of(dataset.type()),
           human_bytes(dataset.tokens() * size_of(dataset.type())));
  put_line("tokens per sequence: {} to {}, {:.1f} on average", shortest, longest, mean);
  int64_t empty = 0, several = 0;
  for (int64_t d = 0; d < dataset.documents(); ++d) {
    const int64_t sequences = dataset.document_begin(d + 1) - dataset.document_begin(d);
    empty += sequences == 0 ? 1 : 0;
    several += sequences > 1 ? 1 : 0;
  }
  if (empty > 0) put_line("documents without sequences: {}", empty);
  if (several > 0) put_line("documents of several sequences: {}", several);
}

// Error: an id outside the tokenizer's vocabulary.
void check_ids(std::span<const TokenId> ids, const Tokenizer& tokenizer, const IndexedDataset& dataset,
               int64_t sequence) {
  for (const TokenId id : ids) {
    if (id >= 0 && id < tokenizer.vocab_size()) continue;
    fail("{}: sequence {} holds the token {}, {} expected: another tokenizer's", bin_path(dataset.prefix()).string(),
         sequence, id, fmt::format("0 to {}", tokenizer.vocab_size() - 1));
  }
}

void inspect(const Arguments& arguments) {
  const auto tokenizer = arguments.tokenizer.empty() ? nullptr : load_tokenizer(arguments.tokenizer);
  const IndexedDataset dataset(arguments.prefix);
  print_summary(dataset);
  if (arguments.documents > 0 && arguments.first > 0 && arguments.first >= dataset.documents())
    fail("--first {}: {} has the documents 0 to {}", arguments.first, arguments.prefix, dataset.documents() - 1);
  const int64_t end = std::min(dataset.documents() - arguments.first, arguments.documents) + arguments.first;
  for (int64_t d = arguments.first; d < end; ++d) {
    const int64_t begin = dataset.document_begin(d), sequences = dataset.document_begin(d + 1) - begin;
    int64_t tokens = 0;
    for (int64_t s = begin; s < begin + sequences; ++s) tokens += dataset.length(s);
    put_line("--- document {}: {} tokens{}", d, tokens,
             sequences > 1 ? fmt::format(" in {} sequences", sequences) : "");
    for (int64_t s = begin; s < begin + sequences; ++s) {
      std::vector<TokenId> ids(static_cast<size_t>(dataset.length(s)));
      dataset.read(s, 0, ids);
      if (tokenizer) {
        check_ids(ids, *tokenizer, dataset, s);
        put_line("{}", tokenizer->decode(ids));
      } else {
        put_line("[{}]", fmt::join(ids, ", "));
      }
    }
  }
}

// Writes OUT with the documents of all inputs in order; a folder stands for all token files in it, sorted by name.
void merge(MergeArguments arguments) {
  if (arguments.output.empty()) {
    arguments.output = arguments.named_output;
    arguments.inputs = arguments.named_inputs;
  } else if (!arguments.named_output.empty() || !arguments.named_inputs.empty()) {
    throw UsageError("--output-prefix and --input replace OUT and IN: give one or the other");
  }
  if (arguments.output.empty() || arguments.inputs.empty())
    throw UsageError("dataset merge needs OUT and at least one IN: partita dataset merge OUT IN...");
  std::vector<fs::path> prefixes;
  for (const std::string& input : arguments.inputs) {
    if (!fs::is_directory(input)) {
      prefixes.emplace_back(input);
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(input)) {
      if (entry.path().extension() == ".idx") found.push_back(fs::path(entry.path()).replace_extension());
    }
    if (found.empty()) fail("{}: no token files (*.idx) in this folder", input);
    std::ranges::sort(found);
    prefixes.insert(prefixes.end(), found.begin(), found.end());
  }
  const auto place = [](const fs::path& prefix) { return fs::weakly_canonical(idx_path(prefix)); };
  std::vector<std::unique_ptr<const IndexedDataset>> datasets;
  for (const fs::path& prefix : prefixes) {
    if (place(prefix) == place(arguments.output))
      fail("{} is an input and would be replaced: give another output", arguments.output);
    if (std::ranges::any_of(datasets, [&](const auto& other) { return place(other->prefix()) == place(prefix); }))
      log::warn("{} is merged more than once", prefix.string());
    datasets.push_back(std::make_unique<const IndexedDataset>(prefix));
    if (datasets.back()->type() != datasets[0]->type()) {
      fail("{} has tokens of {}, {} has {}: tokenize both with the same tokenizer", prefix.string(),
           name_of(datasets.back()->type()), prefixes[0].string(), name_of(datasets[0]->type()));
    }
  }
  check_output_prefix(arguments.output);
  int64_t bytes = 0;
  for (const auto& dataset : datasets)
    bytes += dataset->tokens() * size_of(dataset->type()) + static_cast<int64_t>(dataset->index_bytes().size());
  require_free_bytes(arguments.output, bytes);
  IndexedWriter writer(arguments.output, datasets[0]->type());
  for (const auto& dataset : datasets) writer.add_dataset(*dataset);
  writer.close();
  print_summary(IndexedDataset(arguments.output));
}

void verify_sums(const std::string& prefix, const Tokenizer* tokenizer) {
  const auto sums = read_token_sums(prefix);
  if (!sums) {
    put_line("no checksums: {} does not exist (tokenize and merge write it), so a changed token is not seen",
             printable_line(sums_path(prefix).string()));
    return;
  }
  verify(*sums, prefix);
  put_line("all bytes have their checksums of {}", printable_line(sums_path(prefix).string()));
  if (tokenizer && sums->vocabulary > 0 && sums->fingerprint != fingerprint(*tokenizer))
    log::warn("{} was made with another tokenizer, of {} tokens", prefix, sums->vocabulary);
}

void verify(const Arguments& arguments) {
  const auto tokenizer = arguments.tokenizer.empty() ? nullptr : load_tokenizer(arguments.tokenizer);
  const IndexedDataset dataset(arguments.prefix);  // checks every entry of the index
  TokenId largest = -1;
  std::vector<TokenId> ids;
  for (int64_t s = 0; s < dataset.sequences(); ++s) {
    ids.resize(static_cast<size_t>(dataset.length(s)));
    dataset.read(s, 0, ids);
    if (tokenizer) check_ids(ids, *tokenizer, dataset, s);
    for (const TokenId id : ids) largest = std::max(largest, id);
  }
  print_summary(dataset);
  verify_sums(arguments.prefix, tokenizer.get());
  put_line("largest token {}{}; everything agrees", largest,
           tokenizer ? fmt::format(" of a vocabulary of {}", tokenizer->vocab_size()) : "");
}

CLI::App* add_command(CLI::App& parent, const char* name, const char* help, Arguments& arguments) {
  CLI::App* command = parent.add_subcommand(name, help);
  add_text(*command, "prefix", arguments.prefix, "PREFIX", "Path of the files without .bin or .idx")->required();
  return command;
}

}  // namespace

void add_dataset_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("dataset", "Inspect, verify, merge and index token files");
  command->require_subcommand(1);

  const auto inspected = std::make_shared<Arguments>();
  CLI::App* inspect_command =
      add_command(*command, "inspect", "Print counts and the first documents, as text or ids", *inspected);
  add_text(*inspect_command, "--tokenizer", inspected->tokenizer, "PATH", "Print documents as text (default: as ids)");
  add_number(*inspect_command, "--documents", inspected->documents, at_least(0), "Number of documents to print");
  add_number(*inspect_command, "--first", inspected->first, at_least(0), "First document to print, counted from 0");
  inspect_command->footer(
      "Example:\n  partita dataset inspect data/corpus_text_document --tokenizer tokenizer.json --documents 1");
  inspect_command->callback([inspected] { inspect(*inspected); });

  const auto verified = std::make_shared<Arguments>();
  CLI::App* verify_command = add_command(
      *command, "verify",
      "Check the header, every length, offset and document end, file sizes, all tokens and, where PREFIX.sums "
      "exists, checksums",
      *verified);
  add_text(*verify_command, "--tokenizer", verified->tokenizer, "PATH",
           "Also check that its vocabulary has all tokens");
  verify_command->footer("Example:\n  partita dataset verify data/corpus_text_document --tokenizer tokenizer.json");
  verify_command->callback([verified] { verify(*verified); });

  const auto merged = std::make_shared<MergeArguments>();
  CLI::App* merge_command = command->add_subcommand("merge", "Concatenate token files, document after document");
  add_text(*merge_command, "OUT", merged->output, "OUT", "Path of the files to write, without .bin or .idx")
      ->option_text(kShownAsRequired);
  add_positional_list(*merge_command, "IN", merged->inputs, "IN...",
                      "Paths of token files without .bin or .idx, or folders of them")
      ->option_text(kShownAsRequired);
  // Hidden: the help shows only one form.
  add_text(*merge_command, "--output-prefix", merged->named_output, "PREFIX", "")->group("");
  add_list(*merge_command, "--input", merged->named_inputs, "PREFIX", "")->group("");
  merge_command->footer(
      "All inputs have the same type of token. A folder stands for the token files in it, by name.\n\n"
      "Example:\n  partita dataset merge data/all data/part-0_text_document data/part-1_text_document");
  merge_command->callback([merged] { merge(*merged); });

  add_dataset_index_command(*command);
}

}  // namespace partita::cli
