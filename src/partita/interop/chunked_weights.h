// Weights of a checkpoint that another trainer wrote in parts, under our names and in our layout. Any box is read from
// the chunks that hold it, so that no rank needs more memory than the box it requests.
//
//   const ChunkedWeights weights(folder, tensors, dcp_naming(model, tensors));
//   weights.check(engine.parameters());
//   weights.read(parameter, box, out);
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/stored_types.h"
#include "partita/checkpoint/weight_source.h"
#include "partita/interop/chunked_tensor.h"
#include "partita/models/config.h"

namespace partita::internal {

// Rows of a tensor of theirs that are rows of our parameter. An element of a vector counts as a row here.
struct ChunkedPiece {
  std::string name;
  std::vector<int64_t> shape;       // of their tensor
  int64_t layer = -1;               // index in their first dimension, which stacks the layers; -1: it does not
  int64_t row = 0, rows = 0;        // our rows [row, row + rows)
  int64_t their_row = 0, step = 1;  // our row `row + i` is their row `their_row + i * step`
  bool transposed = false;          // their columns are our rows
  bool padded = false;              // their tensor may have more rows, which belong to no token
};

struct ChunkedParameter {
  std::string name;  // ours
  std::vector<int64_t> shape;
  std::vector<ChunkedPiece> pieces;  // together they cover all rows once
};

struct ChunkedNaming {
  std::vector<ChunkedParameter> parameters;
  std::function<bool(std::string_view)> is_ignorable;  // tensors that are not parameters
  // A tensor that may duplicate `original`, in which case it must be equal; empty: none.
  std::string copy, original;
};

class ChunkedWeights final : public WeightSource {
 public:
  // `path` is for messages. `files`: what the tensors are in, kept as long as this; empty: they keep it themselves.
  ChunkedWeights(std::filesystem::path path, ChunkedTensors, ChunkedNaming,
                 std::shared_ptr<const void> files = nullptr);

  // Errors: those of WeightSource, with the checkpoint's own names; an element type that is not floating-point; chunks
  // that do not cover a tensor, or cover part of it twice; a tied model's head that differs from its token table.
  void check(std::span<const ParameterSpec>) const override;
  // Verifies the checksums of the chunks that it reads, each once. Not thread-safe.
  void read(const ParameterSpec&, const Box&, std::span<float> out) const override;

  // The type of each tensor of a Hugging Face folder of this model, as an export can write it.
  [[nodiscard]] StoredTypes stored_types(const ModelConfig&) const;
  // The float64 tensors, which are rounded to fp32 when read.
  [[nodiscard]] std::vector<std::string> rounded() const;

 private:
  [[nodiscard]] const ChunkedTensor* find(std::string_view name) const;
  [[nodiscard]] const ChunkedParameter* parameter(std::string_view name) const;
  [[nodiscard]] const ChunkedPiece* piece_of(std::string_view tensor) const;
  [[nodiscard]] const MappedTensor& open(const TensorChunk&) const;
  void read_piece(const ChunkedPiece&, const Box& box, float* out) const;
  void check_copy() const;

  std::filesystem::path path_;
  std::shared_ptr<const void> files_;
  ChunkedTensors tensors_;
  ChunkedNaming naming_;
  std::map<std::string_view, const ChunkedParameter*> parameters_;  // pointers into naming_
  mutable std::map<const TensorChunk*, MappedTensor> open_;
};

}  // namespace partita::internal
