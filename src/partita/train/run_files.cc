#include "partita/train/run_files.h"

#include <torch/headeronly/version.h>

#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/host.h"

namespace partita {
namespace {

// The forms that load_tokenizer takes: tokenizer.json under any name, vocab.json with merges.txt, a folder of either.
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& folder) {
  if (from.empty()) return;
  const bool is_folder = std::filesystem::is_directory(from);
  const std::filesystem::path place = is_folder ? from : from.parent_path();
  if (from.filename() == "vocab.json" || (is_folder && !std::filesystem::exists(from / "tokenizer.json"))) {
    for (const char* name : {"vocab.json", "merges.txt"}) write_file(folder / name, read_file(place / name));
  } else {
    write_file(folder / "tokenizer.json", read_file(is_folder ? from / "tokenizer.json" : from));
  }
}

}  // namespace

void write_run_files(const Config& config) {
  const std::filesystem::path& folder = config.run.directory;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("the run's folder {} cannot be made: {}", folder.string(), error.message());
  write_file(folder / "config.toml", to_toml(config));
  const nlohmann::json versions = {
      {"partita", PARTITA_VERSION}, {"libtorch", TORCH_VERSION}, {"compiler", __VERSION__}, {"host", host_name()}};
  write_file(folder / "versions.json", versions.dump(2) + "\n");
  copy_tokenizer(config.data.tokenizer, folder);
}

}  // namespace partita
