#include "partita/train/model_transfer.h"

#include <array>
#include <map>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/adapted_weights.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/hf_export.h"
#include "partita/checkpoint/new_folder.h"
#include "partita/checkpoint/save_weights.h"
#include "partita/models/hf_names.h"
#include "partita/tokenizer/tokenizer.h"
#include "partita/train/model_source.h"
#include "partita/train/run_state.h"

namespace partita {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kGeneration = "generation_config.json";
// What lies beside a model's weights and is handed on as it is.
constexpr std::array kBeside = {
    "tokenizer.json",    "tokenizer_config.json",   "vocab.json",          "merges.txt", "tokenizer.model",
    "added_tokens.json", "special_tokens_map.json", "chat_template.jinja", kGeneration};

std::map<std::string, fs::path> files_beside(const fs::path& folder) {
  std::map<std::string, fs::path> files;
  std::error_code ignored;
  for (const char* name : kBeside)
    if (fs::is_regular_file(folder / name, ignored)) files[name] = folder / name;
  return files;
}

// Where what belongs to a model beside its weights lies: with its tokenizer, or in the run's or Hugging Face's folder.
fs::path folder_beside(const ModelSource& source) {
  if (!source.tokenizer.empty()) return source.tokenizer.parent_path();
  const fs::path run = source.path.parent_path().parent_path();
  std::error_code ignored;
  return fs::exists(run / kGeneration, ignored) ? run : source.path;
}

// Ids for config.json: the model's own, those of generation_config.json beside it, or the tokenizer's end of a document.
// null where nothing is known: GPT-2's and Llama's classes would put their own.
json tokens_of(const ModelSource& source) {
  if (!source.tokens.empty()) return source.tokens;
  json tokens = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  const fs::path generation = folder_beside(source) / kGeneration;
  if (std::error_code ignored; fs::exists(generation, ignored)) {
    const json root = json::parse(read_file(generation), nullptr, false);
    if (!root.is_object()) fail("{} is not valid JSON", generation.string());
    for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"})
      if (root.contains(name)) tokens[name] = root[name];
  } else if (!source.tokenizer.empty()) {
    if (const auto end = load_tokenizer(source.tokenizer)->end_of_document()) {
      tokens["eos_token_id"] = *end;
      if (source.model.kind == ModelKind::gpt2) tokens["bos_token_id"] = *end;  // GPT-2 begins a text so
    }
  }
  return tokens;
}

}  // namespace

fs::path import_model(const fs::path& folder, const fs::path& run) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.json", ignored))
    fail("{} is no Hugging Face folder of a model: it holds no config.json", folder.string());
  const ModelSource source = open_model(folder);
  show_warnings(source);
  if (source.lora.rank > 0)
    fail("{} holds adapters: train or export from it as it is, or merge them first (partita export --merge)",
         folder.string());
  std::vector<ParameterSpec> parameters;
  for (HfParameter& p : hf_parameters(source.model)) parameters.push_back({.name = p.name, .shape = p.shape});
  source.weights->check(parameters);

  NewFolder target(run);
  for (const auto& [name, path] : files_beside(folder)) write_file(target.path() / name, read_file(path));
  if (!source.tokens.empty() && !fs::exists(target.path() / kGeneration, ignored))
    write_file(target.path() / kGeneration, source.tokens.dump(2) + "\n");
  const fs::path step = fs::path("checkpoints") / step_folder_name(0);
  fs::create_directories(target.path() / step);
  RunState state;
  state.model = source.model;
  state.stored_as = name_of(source.stored_as);
  write_weights(target.path() / step, 0, parameters, *source.weights, to_json(state));
  target.publish();
  return run / step;
}

void export_model(const fs::path& path, const fs::path& folder, const ExportOptions& options) {
  const ModelSource source = open_model(path, options.base);
  show_warnings(source);
  const bool adapters = source.lora.rank > 0;
  if (options.merge && !adapters) fail("{} has no adapters to merge: leave --merge out", source.path.string());
  HfExportOptions out{.model = source.model, .type = source.stored_as, .shard_bytes = options.shard_bytes};
  if (adapters && !options.merge) out.type = ElementType::f32;
  if (options.dtype) out.type = element_type(*options.dtype);
  out.files = files_beside(folder_beside(source));
  if (adapters && !options.merge)
    return export_peft_adapter(folder, *source.adapters, out, source.lora, source.base_path.string());
  out.tokens = tokens_of(source);
  if (!adapters) return export_hf_model(folder, *source.base, out);
  export_hf_model(folder, MergedWeights(source.base, source.adapters, source.model, source.lora), out);
}

}  // namespace partita
