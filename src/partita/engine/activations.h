// Activation memory: what blocks save from forward to backward, one slot per micro-batch in flight; temporaries shared
// by all blocks and slots; and the outputs that blocks pass to each other. Laid out before the first step from the
// buffer lists of the blocks.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "partita/nn/block.h"
#include "partita/nn/split.h"

namespace partita::internal {

class Activations {
 public:
  // Bytes that each block saves for a micro-batch of this shape; recompute[block].
  [[nodiscard]] static std::vector<int64_t> kept_bytes(std::span<const std::unique_ptr<Block>> blocks, const Shape&,
                                                       std::span<const BlockRecompute> recompute);
  // Memory for a micro-batch of this shape that all blocks share: buffers that are not saved, scratch, and block
  // outputs.
  struct TemporaryBytes {
    int64_t shared = 0, scratch = 0, outputs = 0;
    [[nodiscard]] int64_t total() const { return shared + scratch + outputs; }
  };
  [[nodiscard]] static TemporaryBytes temporary_bytes(std::span<const std::unique_ptr<Block>> blocks, const Shape&,
                                                      std::span<const BlockRecompute> recompute, int64_t width, DType,
                                                      const TensorSplit& = {});
  // width, dtype: of the residual stream, of which this rank has TensorSplit::stream_rows. kept[slot * blocks + block]:
  // memory for what the block saves, at least kept_bytes; undefined if that is 0, or if the block does not use the
  // slot.
  Activations(std::span<const std::unique_ptr<Block>> blocks, const Shape&, std::span<const BlockRecompute> recompute,
              std::span<const at::Tensor> kept, int64_t width, DType, at::Device = at::kCPU, const TensorSplit& = {});

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] Saved& saved(int slot, int block) {
    return saved_[static_cast<size_t>(slot) * scratch_.size() + static_cast<size_t>(block)];
  }
  [[nodiscard]] std::span<const at::Tensor> scratch(int block) const { return scratch_[static_cast<size_t>(block)]; }
  [[nodiscard]] const OutputBuffers& outputs() const { return outputs_; }
  [[nodiscard]] int64_t temporary_bytes() const { return temporary_bytes_.total(); }

 private:
  Shape shape_;
  TemporaryBytes temporary_bytes_;
  std::vector<Saved> saved_;                      // [slot * blocks + block]
  std::vector<std::vector<at::Tensor>> scratch_;  // [block]
  OutputBuffers outputs_;
};

}  // namespace partita::internal
