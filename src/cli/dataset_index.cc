// partita dataset index: writes the sample order as numpy arrays.
#include "cli/dataset_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/output_check.h"
#include "partita/base/printable.h"
#include "partita/data/blended_dataset.h"
#include "partita/data/npy.h"

namespace partita::cli {
using namespace internal;

namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> data;
  std::string split = "969,30,1", part = "train", output;
  int64_t samples = 0, sequence_length = 0, seed = 1234;
};

template <class To, class From>
std::vector<To> as(std::span<const From> values) {
  return {values.begin(), values.end()};
}

// The files of one dataset or blend, created all together or not at all.
class IndexFiles {
 public:
  explicit IndexFiles(fs::path folder) : folder_(std::move(folder)) {}
  IndexFiles(const IndexFiles&) = delete;
  IndexFiles& operator=(const IndexFiles&) = delete;
  ~IndexFiles() {
    if (published_) return;
    files_.clear();
    std::error_code ignored;
    for (const fs::path& folder : folders_) fs::remove(folder, ignored);  // only empty ones
  }

  template <class T>
  void add(const fs::path& name, std::span<const T> values, int64_t columns = 0) {
    const fs::path path = folder_ / name;
    if (fs::create_directories(path.parent_path())) folders_.push_back(path.parent_path());
    files_.push_back(npy_file(path, values, columns));
  }
  // Uses the dtypes of Megatron's own files.
  void add_order(const fs::path& within, const GptIndexView& index, int64_t longest) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const auto sequences = as<int32_t>(index.sequences);
    add(within / "document_index.npy", std::span<const int32_t>(sequences));
    std::vector<int64_t> starts;
    for (const TokenPosition& start : index.starts) starts.insert(starts.end(), {start.entry, start.offset});
    if (std::max(static_cast<int64_t>(sequences.size()), longest) <= kMost) {
      const auto narrow = as<int32_t>(std::span<const int64_t>(starts));
      add(within / "sample_index.npy", std::span<const int32_t>(narrow), 2);
    } else {
      add(within / "sample_index.npy", std::span<const int64_t>(starts), 2);
    }
    if (index.size() < std::numeric_limits<uint32_t>::max() - 1) {
      const auto narrow = as<uint32_t>(index.shuffle);
      add(within / "shuffle_index.npy", std::span<const uint32_t>(narrow));
    } else {
      add(within / "shuffle_index.npy", index.shuffle);
    }
  }
  void publish() {
    for (AtomicFile& file : files_) file.sync();
    for (AtomicFile& file : files_) file.publish();
    published_ = true;
  }

 private:
  fs::path folder_;
  std::vector<fs::path> folders_;  // created within the output folder
  std::deque<AtomicFile> files_;
  bool published_ = false;
};

SplitName split_named(const std::string& name) {
  for (const SplitName split : {SplitName::train, SplitName::valid, SplitName::test})
    if (name_of(split) == name) return split;
  fail("--part {}: train, valid or test expected", name);
}

void run(const Arguments& a) {
  const std::vector<BlendPart> parts = parse_blend(a.data);
  const bool blended = parts.size() > 1 || parts[0].weight.has_value();
  if (blended && !parts[0].weight) fail("several datasets and no weights: give weights and prefixes in turn");
  if (blended && a.samples == 0) fail("--samples is missing: a blend has no end of its own");
  const SplitName name = split_named(a.part);
  const GptIndexSpec spec{.split = a.part,
                          .sequence_length = a.sequence_length,
                          .samples = a.samples,
                          .seed = static_cast<uint32_t>(a.seed)};
  std::vector<BlendedDataset::Part> open;
  for (const BlendPart& part : parts) {
    const auto tokens = std::make_shared<const IndexedDataset>(part.prefix);
    open.push_back({part.weight.value_or(1), tokens, split_range(parse_split(a.split), name, tokens->sequences()), {}});
  }
  const auto longest = [&open](size_t d) {
    int64_t most = 0;
    for (int64_t s = 0; s < open[d].tokens->sequences(); ++s) most = std::max(most, open[d].tokens->length(s));
    return most;
  };
  const fs::path folder = a.output;
  if (!blended) {
    const GptDataset dataset(open[0].tokens, open[0].range, spec);
    check_output_folder(folder);
    IndexFiles files(folder);
    files.add_order("", dataset.index(), longest(0));
    files.publish();
    const bool more = a.samples > 0 && dataset.size() > a.samples;
    put_line("{}: {} samples{}", printable_line(folder.string()), dataset.size(),
             more ? fmt::format(", whole epochs; a run of {} reads the first {}", a.samples, a.samples) : "");
    return;
  }
  const BlendedDataset blend(open, spec, {});
  check_output_folder(folder);
  IndexFiles files(folder);
  for (size_t d = 0; d < open.size(); ++d) files.add_order(std::to_string(d), blend.parts()[d].index(), longest(d));
  files.add("dataset_index.npy", blend.datasets());
  files.add("dataset_sample_index.npy", blend.samples());
  files.publish();
  put_line("{}: {} samples of {} datasets", printable_line(folder.string()), blend.size(), open.size());
}

}  // namespace

void add_dataset_index_command(CLI::App& parent) {
  const auto a = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand("index", "Write the order of samples as numpy arrays");
  add_positional_list(*command, "data", a->data, "PREFIX | WEIGHT PREFIX ...",
                      "Prefix of token files; or weights and prefixes in turn")
      ->required();
  add_number(*command, "--sequence-length", a->sequence_length, at_least(1), "Tokens per sample")
      ->required()
      ->default_str("");
  add_number(
      *command, "--samples", a->samples, at_least(1),
      "Samples that a run reads; the order is written in whole epochs, so that it may hold more (default: one epoch)")
      ->default_str("");
  add_number(*command, "--seed", a->seed, between(0, 4294967295), "Shuffle seed");
  add_text(*command, "--split", a->split, "WEIGHTS", "Weights of training, validation and test sequences");
  add_choice(*command, "--part", a->part, {"train", "valid", "test"}, "Part of the data");
  add_text(*command, "--output", a->output, "FOLDER", "Folder to write to, new or empty")->required();
  command->footer(
      "Writes document_index.npy, sample_index.npy and shuffle_index.npy in Megatron-LM's form: a row of\n"
      "sample_index is (position in document_index, token offset), and sample k is the L + 1 tokens from row "
      "shuffle[k]\n"
      "to row shuffle[k] + 1, both inclusive. For a blend they are in FOLDER/0, FOLDER/1, ..., next to "
      "dataset_index.npy and dataset_sample_index.npy.\n\n"
      "Example:\n"
      "  partita dataset index 0.7 data/web_text_document 0.3 data/books_text_document --sequence-length 1024 "
      "--samples 100000 --output order");
  command->callback([a] { run(*a); });
}

}  // namespace partita::cli
