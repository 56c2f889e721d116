#include "partita/interop/hf_export.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/new_folder.h"
#include "partita/interop/element_bytes.h"
#include "partita/interop/hf_config.h"
#include "partita/interop/peft_config.h"
#include "partita/interop/peft_names.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};  // required by transformers

DType dtype_of(ElementType type) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16})
    if (element_type(dtype) == type) return dtype;
  fail("weights are not exported as {}: use fp32, fp16 or bf16", name_of(type));
}

// A tensor to write, and the source of its elements.
struct Output {
  ParameterSpec parameter;
  HfPiece piece;
};

std::vector<Output> outputs_of(std::span<const HfParameter> parameters) {
  std::vector<Output> outputs;
  for (const HfParameter& p : parameters)
    for (const HfPiece& piece : p.pieces) outputs.push_back({{.name = p.name, .shape = p.shape}, piece});
  return outputs;
}

int64_t count_of(const Output& output) { return ParameterSpec{.name = "", .shape = output.piece.shape}.count(); }

SafetensorsEntry entry_of(const Output& output, const StoredTypes& types) {
  return {output.piece.name, types.of(output.piece.name), output.piece.shape};
}

int64_t bytes_of(const Output& output, const StoredTypes& types) {
  return count_of(output) * size_of(types.of(output.piece.name));
}

// Fills each file with as many tensors as fit; a larger tensor gets its own file.
std::vector<std::vector<Output>> split_files(std::vector<Output> outputs, const StoredTypes& types, int64_t most) {
  std::vector<std::vector<Output>> files;
  int64_t bytes = 0;
  for (Output& output : outputs) {
    const int64_t size = bytes_of(output, types);
    if (files.empty() || bytes + size > most) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += size;
    files.back().push_back(std::move(output));
  }
  return files;
}

class TensorWriter {
 public:
  TensorWriter(SafetensorsWriter& out, const WeightSource& source, const StoredTypes& types)
      : out_(out), source_(source), types_(types) {}

  void write(const Output& output) {
    name_ = output.piece.name;
    type_ = types_.of(name_);
    output.piece.transposed ? write_transposed(output) : write_rows(output);
  }

 private:
  // Copies row by row: the layout is the same in both.
  void write_rows(const Output& output) {
    for (const Box& box : cut_box(box_of(output.parameter.shape, output.piece), kExportPiece)) {
      values_.resize(static_cast<size_t>(box.count()));
      source_.read(output.parameter, box, values_);
      put(values_);
    }
  }
  // [out, in] here, [in, out] in the file; reads the whole matrix once.
  void write_transposed(const Output& output) {
    const int64_t rows = output.piece.shape[0], columns = output.piece.shape[1];
    values_.resize(static_cast<size_t>(rows * columns));
    source_.read(output.parameter, box_of(output.parameter.shape, output.piece), values_);
    constexpr int64_t kTile = 16;  // output rows per tile: one of our cache lines
    std::vector<float> turned;
    for (int64_t r = 0; r < rows; r += kTile) {
      const int64_t tile = std::min(kTile, rows - r);
      turned.resize(static_cast<size_t>(tile * columns));
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t i = 0; i < tile; ++i)
          turned[static_cast<size_t>(i * columns + c)] = values_[static_cast<size_t>(c * rows + r + i)];
      put(turned);
    }
  }
  void put(std::span<const float> values) { out_.write(bytes_.of(name_, type_, values)); }

  SafetensorsWriter& out_;
  const WeightSource& source_;
  const StoredTypes& types_;
  std::string name_;  // name and type of the tensor being written
  ElementType type_ = ElementType::f32;
  std::vector<float> values_;
  ElementBytes bytes_;
};

void write_file_of(const fs::path& path, std::span<const Output> outputs, const WeightSource& source,
                   const StoredTypes& types) {
  std::vector<SafetensorsEntry> entries;
  for (const Output& output : outputs) entries.push_back(entry_of(output, types));
  SafetensorsWriter out(path, entries, kMetadata);
  TensorWriter writer(out, source, types);
  for (const Output& output : outputs) writer.write(output);
  out.commit();
}

// Writes NAME.safetensors, or NAME-00001-of-00003.safetensors etc. with NAME.safetensors.index.json.
void write_tensors(const fs::path& folder, const std::string& name, std::span<const HfParameter> parameters,
                   const WeightSource& source, const HfExportOptions& options) {
  const StoredTypes& types = options.types;
  int64_t total = 0;
  std::vector<Output> outputs = outputs_of(parameters);
  for (const Output& output : outputs) total += bytes_of(output, types);
  require_free_bytes(folder, total);
  const std::vector<std::vector<Output>> files = split_files(std::move(outputs), types, options.shard_bytes);
  if (files.size() == 1) return write_file_of(folder / (name + ".safetensors"), files[0], source, types);
  json index = {{"metadata", {{"total_size", total}}}, {"weight_map", json::object()}};
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string file = fmt::format("{}-{:05}-of-{:05}.safetensors", name, i + 1, files.size());
    write_file_of(folder / file, files[i], source, types);
    for (const Output& output : files[i]) index["weight_map"][output.piece.name] = file;
  }
  write_file(folder / (name + ".safetensors.index.json"), index.dump(2) + "\n");
}

void write_side_files(const fs::path& folder, const HfExportOptions& options) {
  for (const auto& [name, path] : options.files) {
    fs::create_directories((folder / name).parent_path());
    write_file(folder / name, read_file(path));
  }
  for (const auto& [name, text] : options.texts) write_file(folder / name, text);
}

}  // namespace

void export_hf_model(const fs::path& path, const WeightSource& source, const HfExportOptions& options) {
  const std::vector<HfParameter> parameters = hf_parameters(options.model);
  source.check(parameter_specs(parameters));
  NewFolder folder(path);
  write_file(folder.path() / "config.json",
             hf_config_text(options.model, dtype_of(options.types.usual), options.tokens));
  write_side_files(folder.path(), options);
  write_tensors(folder.path(), "model", parameters, source, options);
  folder.publish();
}

void export_peft_adapter(const fs::path& path, const WeightSource& source, const HfExportOptions& options,
                         const LoraConfig& lora, std::string_view base) {
  const std::vector<HfParameter> parameters = peft_parameters(options.model, lora);
  if (parameters.empty()) fail("{}: a model without adapters has none to export", path.string());
  source.check(parameter_specs(parameters, true));
  NewFolder folder(path);
  write_file(folder.path() / "adapter_config.json", peft_config_text(lora, options.model.kind, base));
  write_side_files(folder.path(), options);
  HfExportOptions whole = options;
  whole.shard_bytes = INT64_MAX;  // PEFT reads a single file
  write_tensors(folder.path(), "adapter_model", parameters, source, whole);
  folder.publish();
}

}  // namespace partita::internal
