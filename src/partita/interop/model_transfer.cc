#include "partita/interop/model_transfer.h"

#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/new_folder.h"
#include "partita/checkpoint/run_state.h"
#include "partita/checkpoint/save_weights.h"
#include "partita/interop/adapted_weights.h"
#include "partita/interop/hf_export.h"
#include "partita/interop/hf_names.h"
#include "partita/interop/model_source.h"
#include "partita/interop/side_files.h"
#include "partita/interop/trainer_checkpoint.h"

namespace partita {
using namespace internal;

namespace fs = std::filesystem;

fs::path import_model(const fs::path& folder, const fs::path& run, const fs::path& config) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.json", ignored) && !is_trainer_checkpoint(folder))
    fail("{} is not a Hugging Face folder of a model: it holds no config.json", folder.string());
  const ModelSource source = open_model(folder, {}, config);
  show_warnings(source);
  if (source.lora.rank > 0)
    fail("{} holds adapters: train or export from it as it is, or merge them first (partita export --merge)",
         folder.string());
  std::vector<ParameterSpec> parameters;
  for (HfParameter& p : hf_parameters(source.model)) parameters.push_back({.name = p.name, .shape = p.shape});
  source.weights->check(parameters);

  NewFolder target(run);
  for (const auto& [name, path] : side_files(source)) {
    fs::create_directories((target.path() / name).parent_path());
    write_file(target.path() / name, read_file(path));
  }
  if (!source.generation.fields.empty())
    write_file(target.path() / kGenerationFile, source.generation.fields.dump(2) + "\n");
  const fs::path step = fs::path("checkpoints") / step_folder_name(0);
  fs::create_directories(target.path() / step);
  RunState state;
  state.model = source.model;
  state.stored_as = source.stored_as;
  write_weights(target.path() / step, 0, parameters, *source.weights, to_json(state));
  target.publish();
  return run / step;
}

void export_model(const fs::path& path, const fs::path& folder, const ExportOptions& options) {
  const ModelSource source = open_model(path, options.base);
  show_warnings(source);
  const bool adapters = source.lora.rank > 0;
  if (options.merge && !adapters) fail("{} has no adapters to merge: leave --merge out", source.path.string());
  const bool alone = adapters && !options.merge;
  HfExportOptions out{.model = source.model,
                      .types = alone ? source.adapters_stored_as : source.stored_as,
                      .shard_bytes = options.shard_bytes};
  if (options.dtype) out.types = {.usual = element_type(*options.dtype)};
  out.files = side_files(source);
  out.texts = missing_side_files(source, out.files);
  if (alone) return export_peft_adapter(folder, *source.adapters, out, source.lora, source.base_path.string());
  out.tokens = token_ids(source);
  if (!adapters) return export_hf_model(folder, *source.base, out);
  export_hf_model(folder, MergedWeights(source.base, source.adapters, source.model, source.lora), out);
}

}  // namespace partita
