// partita dataset: look into .bin/.idx token files and check them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/data/indexed_dataset.h"
#include "partita/tokenizer/tokenizer.h"

namespace {

using namespace partita;

struct Arguments {
  std::string prefix, tokenizer;
  int64_t documents = 3, first = 0;
};

void print_summary(const IndexedDataset& dataset) {
  int64_t shortest = dataset.sequences() > 0 ? dataset.length(0) : 0, longest = 0;
  for (int64_t s = 0; s < dataset.sequences(); ++s) {
    shortest = std::min(shortest, dataset.length(s));
    longest = std::max(longest, dataset.length(s));
  }
  const double mean =
      dataset.sequences() > 0 ? static_cast<double>(dataset.tokens()) / static_cast<double>(dataset.sequences()) : 0;
  fmt::print("{}: {} documents, {} sequences, {} tokens of {} ({})\n", dataset.prefix().string(), dataset.documents(),
             dataset.sequences(), dataset.tokens(), name_of(dataset.type()),
             human_bytes(dataset.tokens() * size_of(dataset.type())));
  fmt::print("tokens a sequence: {} to {}, {:.1f} on average\n", shortest, longest, mean);
}

void inspect(const Arguments& arguments) {
  const auto tokenizer = arguments.tokenizer.empty() ? nullptr : load_tokenizer(arguments.tokenizer);
  const IndexedDataset dataset(arguments.prefix);
  print_summary(dataset);
  const int64_t end = std::min(dataset.documents(), arguments.first + arguments.documents);
  for (int64_t d = arguments.first; d < end; ++d) {
    std::vector<TokenId> ids;
    for (int64_t s = dataset.document_begin(d); s < dataset.document_begin(d + 1); ++s) {
      const size_t before = ids.size();
      ids.resize(before + static_cast<size_t>(dataset.length(s)));
      dataset.read(s, 0, std::span(ids).subspan(before));
    }
    fmt::print("--- document {}: {} tokens\n", d, ids.size());
    if (tokenizer) {
      fmt::print("{}\n", tokenizer->decode(ids));
    } else {
      fmt::print("[{}]\n", fmt::join(ids, ", "));
    }
  }
}

void verify(const Arguments& arguments) {
  const auto tokenizer = arguments.tokenizer.empty() ? nullptr : load_tokenizer(arguments.tokenizer);
  const IndexedDataset dataset(arguments.prefix);  // checks the index, every entry of it
  TokenId largest = -1;
  std::vector<TokenId> ids;
  for (int64_t s = 0; s < dataset.sequences(); ++s) {
    ids.resize(static_cast<size_t>(dataset.length(s)));
    dataset.read(s, 0, ids);
    for (TokenId id : ids) {
      largest = std::max(largest, id);
      if (id < 0 || (tokenizer && id >= tokenizer->vocab_size())) {
        fail("{}: sequence {} holds the token {}, {} expected", bin_path(arguments.prefix).string(), s, id,
             tokenizer ? fmt::format("0 to {}", tokenizer->vocab_size() - 1) : "0 or more");
      }
    }
  }
  print_summary(dataset);
  fmt::print("largest token {}{}; everything agrees\n", largest,
             tokenizer ? fmt::format(" of a vocabulary of {}", tokenizer->vocab_size()) : "");
}

CLI::App* add_command(CLI::App& parent, const char* name, const char* help, Arguments& arguments) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->add_option("prefix", arguments.prefix, "The files' path without .bin or .idx")
      ->required()
      ->type_name("PREFIX");
  return command;
}

}  // namespace

void add_dataset_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("dataset", "Looks into .bin/.idx token files and checks them");
  command->require_subcommand(1);

  const auto inspected = std::make_shared<Arguments>();
  CLI::App* inspect_command =
      add_command(*command, "inspect", "Prints counts and the first documents, as text or ids", *inspected);
  inspect_command->add_option("--tokenizer", inspected->tokenizer, "Print documents as text, not as ids")
      ->type_name("PATH");
  inspect_command->add_option("--documents", inspected->documents, "How many documents to print")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  inspect_command->add_option("--first", inspected->first, "The first document to print, counted from 0")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  inspect_command->footer(
      "Example:\n  partita dataset inspect data/corpus_text_document --tokenizer tokenizer.json --documents 1");
  inspect_command->callback([inspected] { inspect(*inspected); });

  const auto verified = std::make_shared<Arguments>();
  CLI::App* verify_command =
      add_command(*command, "verify",
                  "Check the header, every length, offset and document end, file sizes and all tokens", *verified);
  verify_command->add_option("--tokenizer", verified->tokenizer, "Check that all tokens are in its vocabulary too")
      ->type_name("PATH");
  verify_command->footer("Example:\n  partita dataset verify data/corpus_text_document --tokenizer tokenizer.json");
  verify_command->callback([verified] { verify(*verified); });
}
