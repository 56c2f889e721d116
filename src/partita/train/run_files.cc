#include "partita/train/run_files.h"

#include <torch/headeronly/version.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/base/host.h"
#include "partita/interop/side_files.h"
#include "partita/tokenizer/formats/tokenizer_files.h"

namespace partita::internal {
namespace {

void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& folder) {
  if (from.empty()) return;
  for (const auto& [file, name] : find_tokenizer_files(from).copies()) write_file(folder / name, read_file(file));
  const bool is_folder = std::filesystem::is_directory(from);
  for (const auto& [name, file] : tokenizer_side_files(is_folder ? from : from.parent_path())) {
    std::filesystem::create_directories((folder / name).parent_path());
    write_file(folder / name, read_file(file));
  }
}

// Copies the base model's generation config, so that generation stops at the same tokens.
void copy_generation(const Config& config) {
  if (config.from.empty()) return;
  const nlohmann::json fields = open_model(config.from, config.base).generation.fields;
  if (!fields.empty()) write_file(config.run.directory / kGenerationFile, fields.dump(2) + "\n");
}

}  // namespace

void write_versions(const std::filesystem::path& folder) {
  const nlohmann::json versions = {
      {"partita", PARTITA_VERSION}, {"libtorch", TORCH_VERSION}, {"compiler", __VERSION__}, {"host", host_name()}};
  write_file(folder / "versions.json", versions.dump(2) + "\n");
}

void write_run_files(const Config& config, int64_t resumed_step) {
  const std::filesystem::path& folder = config.run.directory;
  // The saved configuration is for continuing this run: it must not fork or rewind again.
  Config saved = config;
  saved.run.rewind = false;
  if (!saved.run.fork.empty()) {
    saved.run.fork.clear();
    saved.checkpoint.resume = "auto";
  }
  const std::filesystem::path path = folder / "config.toml";
  const std::string text = to_toml(saved);
  if (resumed_step > 0 && std::filesystem::exists(path)) {
    const std::string before = read_file(path);
    // Keep the first one: later starts at this step made no steps that were kept.
    const std::filesystem::path kept = folder / fmt::format("config-until-step-{:08}.toml", resumed_step);
    if (before != text && !std::filesystem::exists(kept)) write_file(kept, before);
  }
  write_file(path, text);
  write_versions(folder);
  copy_tokenizer(config.data.tokenizer, folder);
  copy_generation(config);
}

}  // namespace partita::internal
