#include "partita/interop/model_source.h"

#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/hub_name.h"
#include "partita/base/log.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/run_state.h"
#include "partita/checkpoint/stored_weights.h"
#include "partita/interop/adapted_weights.h"
#include "partita/interop/hf_config.h"
#include "partita/interop/hf_weights.h"
#include "partita/interop/llmc_weights.h"
#include "partita/interop/model_files.h"
#include "partita/interop/peft.h"
#include "partita/interop/peft_config.h"
#include "partita/interop/trainer_checkpoint.h"

namespace partita {
using namespace internal;
namespace {

namespace fs = std::filesystem;

ModelSource open_hf(const fs::path& path) {
  require_regular(path / kModelConfig);
  HfConfig config = parse_hf_config(read_file(path / kModelConfig), path / kModelConfig);
  const auto weights = std::make_shared<const HfWeights>(HfFolder(path), hf_naming(config.model));
  ModelSource source{.path = path, .model = config.model, .tokenizer = find_tokenizer_in({{path}})};
  source.weights = source.base = weights;
  source.stored_as = weights->stored_types();
  source.tokens = std::move(config.tokens);
  source.warnings = std::move(config.warnings);
  if (const auto rounded = weights->rounded(); !rounded.empty())
    source.warnings.push_back(float64_warning(path, rounded));
  source.generation = read_generation_config(path, source.tokens);
  source.side_folders = {path};
  return source;
}

// Adds adapters to an open model; `path` contains them.
ModelSource adapt(ModelSource base, const fs::path& path, LoraConfig lora,
                  std::shared_ptr<const WeightSource> adapters) {
  if (base.lora.rank > 0)
    fail("{} adapts {}, which has adapters itself: merge them first (partita export --merge)", path.string(),
         base.path.string());
  base.base_path = std::exchange(base.path, path);
  base.lora = std::move(lora);
  base.adapters = std::move(adapters);
  base.weights = std::make_shared<const AdaptedWeights>(base.base, base.adapters);
  return base;
}

// A relative path is tried from the working directory, then next to the adapters' folder.
fs::path locate_base(const fs::path& path, const fs::path& said, const fs::path& chosen) {
  if (!chosen.empty()) return chosen;
  if (said.empty()) fail("{} does not say which model it adapts: name its folder with --base", path.string());
  for (const fs::path& place : {said, fs::absolute(path / "").parent_path().parent_path() / said})
    if (is_there(place)) return place;
  fail("{} adapts {}, which is not a folder here: name the model's folder with --base{}", path.string(), said.string(),
       hub_hint(said));
}

ModelSource open_peft(const fs::path& path, const fs::path& chosen) {
  require_regular(path / kAdapterConfig);
  const std::string text = read_file(path / kAdapterConfig);
  ModelSource base = open_model(locate_base(path, peft_base(text, path / kAdapterConfig), chosen));
  const PeftConfig config = parse_peft_config(text, path / kAdapterConfig, base.model.kind);
  auto adapters = std::make_shared<const HfWeights>(HfFolder(path, kPeftFiles), peft_naming(base.model, config.lora));
  StoredTypes types = adapters->stored_types();
  ModelSource source = adapt(std::move(base), path, config.lora, std::move(adapters));
  source.adapters_stored_as = std::move(types);
  source.side_folders.insert(source.side_folders.begin(), path);
  source.warnings.insert(source.warnings.end(), config.warnings.begin(), config.warnings.end());
  if (const fs::path own = find_tokenizer_in({{path}}); !own.empty()) source.tokenizer = own;
  return source;
}

ModelSource open_checkpoint(const fs::path& path, const fs::path& chosen) {
  const fs::path folder = fs::canonical(resolve_checkpoint(path));
  auto weights = std::make_shared<const StoredWeights>(folder);
  const RunState state = run_state(weights->manifest(), folder);
  // The checkpoint's own tokenizer, or that of its run RUN/checkpoints/step-....
  const fs::path run = folder.parent_path().parent_path();
  const fs::path tokenizer = find_tokenizer_in({{folder, folder.parent_path(), run}});
  if (state.lora.rank > 0) {
    ModelSource base = open_model(locate_base(folder, state.base, chosen));
    check_same_model(state, base.model, state.lora, folder);
    base.model.max_length = state.model.max_length;  // the context of a rotary model may have been extended
    ModelSource source = adapt(std::move(base), folder, state.lora, std::move(weights));
    if (!tokenizer.empty()) source.tokenizer = tokenizer;
    source.side_folders.insert(source.side_folders.begin(), run);
    if (is_there(run / kGenerationFile)) source.generation = read_generation_config(run);
    source.trained_here = true;
    return source;
  }
  ModelSource source{.path = folder, .model = state.model, .tokenizer = tokenizer};
  source.stored_as = state.stored_as;
  source.weights = source.base = std::move(weights);
  source.generation = read_generation_config(run);
  source.side_folders = {run, folder};
  source.trained_here = true;
  return source;
}

// llm.c's only format of models. A tokenizer is taken from the folder of the file.
ModelSource open_file(const fs::path& path) {
  const auto weights = std::make_shared<const LlmcWeights>(path);
  const fs::path folder = fs::absolute(path).parent_path();
  ModelSource source{.path = path, .model = weights->header().model, .tokenizer = find_tokenizer_in({{folder}})};
  source.stored_as = {.usual = element_type(weights->header().dtype)};
  source.weights = source.base = weights;
  source.side_folders = {folder};
  return source;
}

}  // namespace

void show_warnings(const ModelSource& source) {
  for (const std::string& warning : source.warnings) log::warn("{}", warning);
}

ModelSource open_model(const fs::path& path, const fs::path& base, const fs::path& config) {
  if (!is_there(path)) fail("{}: no such file or folder, expected {}{}", path.string(), kModelPaths, hub_hint(path));
  const bool adapters = is_there(path / kAdapterConfig), model = is_there(path / kModelConfig);
  // A folder may hold a model in both forms, of which its own config.json describes one for certain.
  const bool hugging_face = model && config.empty() && has_hf_weights(path);
  const bool of_trainer = !adapters && !hugging_face && is_trainer_checkpoint(path);
  if (!config.empty() && !of_trainer)
    fail(
        "--config applies only to a checkpoint of torch.distributed.checkpoint or Megatron-LM, and {} is not one: "
        "remove "
        "--config",
        path.string());
  ModelSource source;
  if (of_trainer) {
    source = open_trainer_checkpoint(path, config);
  } else if (adapters) {
    source = open_peft(path, base);
  } else if (model) {
    source = open_hf(path);
  } else if (std::error_code ignored; fs::is_regular_file(path, ignored)) {
    source = open_file(path);
  } else if (is_there(path / kManifestName) || is_there(path / "checkpoints")) {
    source = open_checkpoint(path, base);
  } else {
    fail(
        "{} holds no model: expected a Hugging Face folder ({}), a folder of adapters ({}), a run's folder "
        "(checkpoints), a checkpoint ({}), one of torch.distributed.checkpoint or Megatron-LM (.metadata, mp_rank_00), "
        "or "
        "a file of llm.c (.bin)",
        path.string(), kModelConfig, kAdapterConfig, kManifestName);
  }
  if (!base.empty() && source.lora.rank == 0)
    fail("--base (model.base) applies only to adapters, and {} has none: remove --base", path.string());
  return source;
}

}  // namespace partita
