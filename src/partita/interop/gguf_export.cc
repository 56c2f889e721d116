#include "partita/interop/gguf_export.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/interop/gguf_elements.h"
#include "partita/interop/gguf_metadata.h"
#include "partita/interop/gguf_names.h"
#include "partita/interop/hf_names.h"
#include "partita/interop/new_file.h"

namespace partita::internal {
namespace {

class TensorWriter {
 public:
  TensorWriter(NewFile& file, const WeightSource& source) : file_(file), source_(source) {}

  void write(const GgufTensor& tensor, GgufType type) {
    // Groups of whole heads where rows change places within a head.
    const int64_t rows = std::max<int64_t>(1, tensor.interleaved_head_width);
    const int64_t most = std::max(kExportPiece / (rows * tensor.box.columns), int64_t{1}) * rows;
    if (tensor.interleaved_head_width == 0) {
      for (const Box& box : cut_box(tensor.box, kExportPiece)) put(tensor, type, read(tensor, box));
      return;
    }
    Box box = tensor.box;
    for (int64_t row = 0; row < tensor.box.rows; row += most) {
      box.row = tensor.box.row + row;
      box.rows = std::min(most, tensor.box.rows - row);
      put(tensor, type, interleaved(read(tensor, box), box, tensor.interleaved_head_width));
    }
  }
  void write(std::string_view name, std::span<const float> values) {
    file_.write(elements_.of(name, GgufType::f32, values));
  }
  // Zeros up to an offset in the file.
  void pad_to(int64_t offset) {
    const std::vector<std::byte> zeros(static_cast<size_t>(offset - file_.size()));
    file_.write(zeros);
  }

 private:
  std::span<const float> read(const GgufTensor& tensor, const Box& box) {
    values_.resize(static_cast<size_t>(box.count()));
    source_.read(tensor.parameter, box, values_);
    return values_;
  }
  std::span<const float> interleaved(std::span<const float> values, const Box& box, int64_t head_width) {
    turned_.resize(values.size());
    const auto columns = static_cast<size_t>(box.columns);
    for (int64_t row = 0; row < box.rows; ++row) {
      const auto from = static_cast<size_t>(row_of_interleaved(row, head_width)), to = static_cast<size_t>(row);
      std::ranges::copy(values.subspan(from * columns, columns), turned_.begin() + static_cast<int64_t>(to * columns));
    }
    return turned_;
  }
  void put(const GgufTensor& tensor, GgufType type, std::span<const float> values) {
    file_.write(elements_.of(tensor.name, type, values));
  }

  NewFile& file_;
  const WeightSource& source_;
  GgufElements elements_;
  std::vector<float> values_, turned_;
};

// The type of the matrices together, for llama.cpp's "mostly".
GgufType usual_type(const GgufExportOptions& options) {
  if (options.q8_0) return GgufType::q8_0;
  return options.types.usual == ElementType::f16    ? GgufType::f16
         : options.types.usual == ElementType::bf16 ? GgufType::bf16
                                                    : GgufType::f32;
}

}  // namespace

void export_gguf(const std::filesystem::path& path, const WeightSource& source, const GgufExportOptions& options) {
  source.check(parameter_specs(hf_parameters(options.model)));
  const std::vector<GgufTensor> tensors = gguf_tensors(options.model);
  const std::vector<float> divisors = gguf_rope_divisors(options.model);
  GgufMetadata metadata = gguf_model_metadata(options.model, usual_type(options));
  metadata.insert(metadata.end(), options.vocabulary.begin(), options.vocabulary.end());
  std::vector<GgufEntry> entries;
  if (!divisors.empty()) entries.push_back({std::string(kGgufRopeDivisors), {std::ssize(divisors)}, GgufType::f32});
  for (const GgufTensor& tensor : tensors)
    entries.push_back({tensor.name, tensor.shape, gguf_type(tensor, options.types, options.q8_0)});
  const GgufLayout layout = lay_out_gguf(metadata, entries);

  NewFile file(path, layout.bytes);
  file.write(std::as_bytes(std::span(layout.header)));
  TensorWriter writer(file, source);
  size_t entry = 0;
  if (!divisors.empty()) writer.write(entries[entry++].name, divisors);
  for (const GgufTensor& tensor : tensors) {
    writer.pad_to(layout.offsets[entry]);
    writer.write(tensor, entries[entry].type);
    ++entry;
  }
  writer.pad_to(layout.bytes);
  file.publish();
}

}  // namespace partita::internal
