#include "partita/interop/model_transfer.h"

#include <cctype>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/new_folder.h"
#include "partita/checkpoint/run_state.h"
#include "partita/checkpoint/save_weights.h"
#include "partita/interop/adapted_weights.h"
#include "partita/interop/chat_template.h"
#include "partita/interop/gguf_export.h"
#include "partita/interop/gguf_vocabulary.h"
#include "partita/interop/hf_export.h"
#include "partita/interop/hf_names.h"
#include "partita/interop/llmc_export.h"
#include "partita/interop/model_files.h"
#include "partita/interop/model_source.h"
#include "partita/interop/model_tokenizer.h"
#include "partita/interop/side_files.h"

namespace partita {
using namespace internal;

namespace fs = std::filesystem;

namespace {

// Error: the tokenizer, which knows them where no file says them, cannot be read.
GgufSpecialIds special_ids(const ModelSource& source) {
  const nlohmann::json tokens = token_ids(source);
  const auto id_of = [&](const char* name) {
    const nlohmann::json id = tokens.value(name, nlohmann::json());
    return id.is_number_integer() ? std::optional(id.get<int64_t>()) : std::nullopt;
  };
  GgufSpecialIds ids{.bos = id_of("bos_token_id"), .pad = id_of("pad_token_id")};
  ids.eos = source.generation.eos_token_ids;
  if (const auto eos = id_of("eos_token_id"); eos && ids.eos.empty()) ids.eos = {*eos};
  return ids;
}

// A tokenizer that cannot be read, or is another model's, is left out.
GgufVocabulary vocabulary_of(const ModelSource& source) {
  const int64_t size = source.model.vocab_size;
  if (source.tokenizer.empty()) return gguf_vocabulary(nullptr, {}, size);
  try {
    return gguf_vocabulary(load_tokenizer_of(source).get(), special_ids(source), size);
  } catch (const Error& error) {
    GgufVocabulary none = gguf_vocabulary(nullptr, {}, size);
    none.warnings = {fmt::format("the file has no tokenizer: {}", error.what())};
    return none;
  }
}

void export_as_gguf(const fs::path& path, const ModelSource& source, const WeightSource& weights,
                    const StoredTypes& types, bool q8_0) {
  GgufVocabulary vocabulary = vocabulary_of(source);
  for (const std::string& warning : vocabulary.warnings) log::warn("{}: {}", path.string(), warning);
  if (std::string jinja = chat_template(side_files(source)); !jinja.empty())
    vocabulary.metadata.emplace_back("tokenizer.chat_template", std::move(jinja));
  export_gguf(path, weights,
              {.model = source.model, .types = types, .q8_0 = q8_0, .vocabulary = std::move(vocabulary.metadata)});
}

// llm.c has two types, each for the whole file.
DType llmc_type(const StoredTypes& types, std::optional<DType> asked) {
  if (asked) return *asked;
  return types == StoredTypes{.usual = ElementType::bf16} ? DType::bf16 : DType::fp32;
}

}  // namespace

fs::path import_model(const fs::path& folder, const fs::path& run, const fs::path& config) {
  const auto refuse_adapters = [&] {
    fail("{} holds adapters: train or export from it as it is, or merge them first (partita export --merge)",
         folder.string());
  };
  if (is_there(folder / kAdapterConfig)) refuse_adapters();  // also where their base is missing
  const ModelSource source = open_model(folder, {}, config);
  show_warnings(source);
  if (source.lora.rank > 0) refuse_adapters();
  if (source.trained_here)
    fail("{} is a run or checkpoint of Partita, which every command takes as it is: name another program's model",
         folder.string());
  const std::vector<ParameterSpec> parameters = parameter_specs(hf_parameters(source.model));
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

ExportFormat export_format(const fs::path& out, ExportFormat format) {
  if (format != ExportFormat::automatic) return format;
  std::string ending = out.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".gguf" ? ExportFormat::gguf : ending == ".bin" ? ExportFormat::llmc : ExportFormat::hf;
}

void export_model(const fs::path& path, const fs::path& target, const ExportOptions& options) {
  const ExportFormat format = export_format(target, options.format);
  if (options.q8_0 && format != ExportFormat::gguf)
    fail("q8_0 is a type of GGUF files: give a name that ends in .gguf, or --format gguf");
  const ModelSource source = open_model(path, options.base);
  show_warnings(source);
  const bool adapters = source.lora.rank > 0;
  if (options.merge && !adapters) fail("{} has no adapters to merge: leave --merge out", source.path.string());
  const bool alone = adapters && !options.merge;
  if (alone && format != ExportFormat::hf)
    fail("{} holds adapters, which {} does not take alone: merge them into the model (--merge), or export a folder",
         source.path.string(), format == ExportFormat::gguf ? "a GGUF file" : "an llm.c file");
  HfExportOptions out{.model = source.model,
                      .types = alone ? source.adapters_stored_as : source.stored_as,
                      .shard_bytes = options.shard_bytes};
  if (options.dtype) out.types = {.usual = element_type(*options.dtype)};
  const std::shared_ptr<const WeightSource> weights =
      options.merge ? std::make_shared<const MergedWeights>(source.base, source.adapters, source.model, source.lora)
                    : source.base;
  if (format == ExportFormat::gguf) return export_as_gguf(target, source, *weights, out.types, options.q8_0);
  if (format == ExportFormat::llmc)
    return export_llmc(target, *weights, source.model, llmc_type(source.stored_as, options.dtype));
  out.files = side_files(source);
  out.texts = missing_side_files(source, out.files);
  if (alone) return export_peft_adapter(target, *source.adapters, out, source.lora, source.base_path.string());
  out.tokens = token_ids(source);
  export_hf_model(target, *weights, out);
}

}  // namespace partita
