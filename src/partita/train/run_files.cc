#include "partita/train/run_files.h"

#include <torch/headeronly/version.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/file.h"

namespace partita {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
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
  const std::filesystem::path& tokenizer = config.data.tokenizer;
  if (std::filesystem::is_regular_file(tokenizer)) write_file(folder / "tokenizer.json", read_file(tokenizer));
}

}  // namespace partita
