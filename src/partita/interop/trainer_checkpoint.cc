#include "partita/interop/trainer_checkpoint.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/foreign_format.h"
#include "partita/base/json.h"
#include "partita/base/printable.h"
#include "partita/interop/chunked_weights.h"
#include "partita/interop/dcp_folder.h"
#include "partita/interop/dcp_names.h"
#include "partita/interop/hf_config.h"
#include "partita/interop/json_fields.h"
#include "partita/interop/megatron_args.h"
#include "partita/interop/megatron_file.h"
#include "partita/interop/megatron_names.h"
#include "partita/interop/megatron_ranks.h"
#include "partita/interop/model_files.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kTracker = "latest_checkpointed_iteration.txt", *kMegatronMetadata = "metadata.json";
constexpr const char* kCommon = "common.pt";
constexpr const char* kCommonObject = "common_state/shard_0_1";  // in place of common.pt in newer versions

// The iteration that the tracker names; without a tracker, the folder itself.
fs::path iteration_folder(const fs::path& path) {
  if (!is_there(path / kTracker)) return path;
  std::string text = read_small_file(path / kTracker);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  if (text == "release") return path / text;
  int64_t iteration = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
  if (error != std::errc() || end != text.data() + text.size() || iteration < 0)
    fail("{} holds '{}': expected the number of an iteration, or 'release'", (path / kTracker).string(),
         printable_line(text.substr(0, 100)));
  const fs::path folder = path / fmt::format("iter_{:07}", iteration);
  if (!is_there(folder))
    fail("{} names iteration {}, but {} does not exist: name the folder of an iteration", (path / kTracker).string(),
         iteration, folder.string());
  return folder;
}

struct GivenConfig {
  fs::path file;
  HfConfig config;
};

std::optional<GivenConfig> find_config(const fs::path& folder, const fs::path& chosen) {
  fs::path file = chosen;
  if (chosen.empty()) {
    for (const fs::path& place : {folder, fs::absolute(folder / "").parent_path().parent_path()})
      if (file.empty() && is_there(place / kModelConfig)) file = place / kModelConfig;
    if (file.empty()) return std::nullopt;
  } else if (fs::is_directory(chosen)) {
    file = chosen / kModelConfig;
  }
  require_regular(file);
  return GivenConfig{file, parse_hf_config(read_file(file), file)};
}

// Of all commands only `import` has the option.
std::string config_advice(const fs::path& folder) {
  return fmt::format(
      "put the model's {0} into it, or import it with that of another place (partita import --config {0} "
      "{1} RUN)",
      kModelConfig, shell_word(folder.string()));
}

// What all formats have in common. `weights` must be set.
ModelSource make_source(const fs::path& folder, const ModelConfig& model, std::optional<GivenConfig> given,
                        std::shared_ptr<const ChunkedWeights> weights, std::vector<std::string> warnings) {
  ModelSource source{.path = folder, .model = model};
  source.stored_as = weights->stored_types(model);
  source.warnings = std::move(warnings);
  if (const auto rounded = weights->rounded(); !rounded.empty())
    source.warnings.push_back(float64_warning(folder, rounded));
  source.weights = source.base = std::move(weights);
  source.side_folders = {folder, fs::absolute(folder / "").parent_path().parent_path()};
  if (given) {
    source.side_folders.insert(source.side_folders.begin(), fs::absolute(given->file).parent_path());
    source.tokens = std::move(given->config.tokens);
    source.warnings.insert(source.warnings.end(), given->config.warnings.begin(), given->config.warnings.end());
    source.generation = read_generation_config(source.side_folders[0], source.tokens);
  }
  source.tokenizer = find_tokenizer_in(source.side_folders);
  return source;
}

ModelSource open_dcp(const fs::path& folder, const fs::path& config) {
  std::optional<GivenConfig> given = find_config(folder, config);
  if (!given) fail("{} does not say which model it holds: {}", folder.string(), config_advice(folder));
  const ModelConfig model = given->config.model;
  const DcpFolder stored(folder);
  DcpModel found = find_dcp_model(model, stored.tensors(), folder);
  auto weights = std::make_shared<const ChunkedWeights>(folder, std::move(found.tensors), std::move(found.naming));
  return make_source(folder, model, std::move(given), std::move(weights), std::move(found.warnings));
}

// The model by the arguments of the training, or by config.json; by both if they agree.
ModelConfig choose_model(const std::optional<json>& arguments, const fs::path& file, const fs::path& folder,
                         const std::optional<GivenConfig>& given) {
  if (!arguments && !given)
    fail("{} holds no arguments of the training (args): {}", folder.string(), config_advice(folder));
  if (!arguments) return given->config.model;
  const ModelConfig model = megatron_model(*arguments, file);
  if (!given) return model;
  if (const std::string text = model_differences(given->config.model, model); !text.empty())
    fail("{} and the arguments in {} describe different models: {}", given->file.string(), file.string(), text);
  if (given->config.model.vocab_size > model.vocab_size)
    fail("{} has a vocabulary of {}, {} one of {}, which can only be padded: correct vocab_size", given->file.string(),
         given->config.model.vocab_size, file.string(), model.vocab_size);
  ModelConfig chosen = given->config.model;
  if (chosen.kind == ModelKind::gpt2) chosen.max_length = model.max_length;  // its positions are weights
  return chosen;
}

std::vector<std::string> megatron_warnings(const std::optional<json>& arguments, const fs::path& folder) {
  if (!arguments || says_nothing(arguments->value("fp8", json()))) return {};
  return {fmt::format("{}: it was trained in fp8, whose scales (_extra_state) are not read", folder.string())};
}

// Error: a format of tensors other than torch_dist.
void check_backend(const fs::path& folder) {
  const fs::path file = folder / kMegatronMetadata;
  if (!is_there(file))
    fail("{} is not complete: {}, which Megatron-LM writes last, is missing", folder.string(), kMegatronMetadata);
  const json root = parse_json(read_small_file(file), file.string());
  const json backend = root.is_object() ? root.value("sharded_backend", json()) : json();
  if (backend != "torch_dist")
    fail("{}: sharded_backend is {}, supported: \"torch_dist\": load it with Megatron-LM and save it as torch_dist",
         file.string(), json_excerpt(backend));
}

struct CommonState {
  std::optional<json> arguments;
  fs::path file;
};
CommonState read_common_state(const fs::path& folder, const DcpFolder& stored) {
  MappedFile mapped;
  std::span<const std::byte> bytes;
  fs::path file = folder / kCommon;
  if (is_there(file)) {
    mapped = MappedFile(file);
    bytes = mapped.bytes();
  } else {
    file = folder / kCommonObject;
    bytes = stored.object(kCommonObject);
  }
  if (bytes.empty()) return {std::nullopt, file};
  return {MegatronFile(bytes, file).arguments(), file};
}

ModelSource open_torch_dist(const fs::path& folder, const fs::path& config) {
  check_backend(folder);
  const DcpFolder stored(folder);
  const CommonState state = read_common_state(folder, stored);
  std::optional<GivenConfig> given = find_config(folder, config);
  const ModelConfig model = choose_model(state.arguments, state.file, folder, given);
  ChunkedTensors tensors = stored.tensors();
  ChunkedNaming naming = megatron_naming(model, tensors);
  auto weights = std::make_shared<const ChunkedWeights>(folder, std::move(tensors), std::move(naming));
  return make_source(folder, model, std::move(given), std::move(weights), megatron_warnings(state.arguments, folder));
}

ModelSource open_ranks(const fs::path& folder, const fs::path& config) {
  const auto ranks = std::make_shared<const MegatronRanks>(folder);
  std::optional<GivenConfig> given = find_config(folder, config);
  const ModelConfig model = choose_model(ranks->arguments(), ranks->file(), folder, given);
  ChunkedTensors tensors = ranks->tensors(model.kind == ModelKind::llama);
  ChunkedNaming naming = megatron_naming(model, tensors);
  auto weights = std::make_shared<const ChunkedWeights>(folder, std::move(tensors), std::move(naming), ranks);
  return make_source(folder, model, std::move(given), std::move(weights),
                     megatron_warnings(ranks->arguments(), folder));
}

}  // namespace

bool is_trainer_checkpoint(const fs::path& path) {
  return is_there(path / kTracker) || is_there(path / kDcpMetadata) || is_there(path / kCommon) ||
         has_megatron_ranks(path);
}

ModelSource open_trainer_checkpoint(const fs::path& path, const fs::path& config) {
  const fs::path folder = iteration_folder(path);
  if (has_megatron_ranks(folder)) return open_ranks(folder, config);
  if (is_there(folder / kCommon) || is_there(folder / kMegatronMetadata)) return open_torch_dist(folder, config);
  if (is_there(folder / kDcpMetadata)) return open_dcp(folder, config);
  fail("{} holds no checkpoint of Megatron-LM: expected {} and {}, or folders mp_rank_00", folder.string(),
       kDcpMetadata, kMegatronMetadata);
}

}  // namespace partita::internal
