#include "partita/interop/llmc_export.h"

#include <vector>

#include "partita/checkpoint/safetensors.h"
#include "partita/interop/element_bytes.h"
#include "partita/interop/llmc_format.h"
#include "partita/interop/new_file.h"

namespace partita::internal {
void export_llmc(const std::filesystem::path& path, const WeightSource& source, const ModelConfig& model, DType dtype) {
  const LlmcHeader header = llmc_header(model, dtype);
  const std::vector<LlmcTensor> tensors = llmc_tensors(header);
  std::vector<ParameterSpec> parameters;
  for (const LlmcTensor& tensor : tensors) parameters.push_back(tensor.parameter);
  source.check(parameters);

  NewFile file(path, llmc_bytes(header));
  const std::string text = llmc_header_text(header);
  file.write(std::as_bytes(std::span(text)));
  ElementBytes bytes;
  std::vector<float> values;
  for (const LlmcTensor& tensor : tensors) {
    for (const Box& box : cut_box(whole_box(tensor.parameter.shape), kExportPiece)) {
      values.resize(static_cast<size_t>(box.count()));
      source.read(tensor.parameter, box, values);
      file.write(bytes.of(tensor.parameter.name, element_type(dtype), values));
    }
    values.assign(static_cast<size_t>(tensor.padding), 0.0F);  // at most 127 rows
    file.write(bytes.of(tensor.parameter.name, element_type(dtype), values));
  }
  file.publish();
}

}  // namespace partita::internal
