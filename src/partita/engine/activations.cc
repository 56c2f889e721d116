#include "partita/engine/activations.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "partita/ops/fp8.h"

namespace partita::internal {
namespace {

std::vector<BufferSpec> filter(const std::vector<BufferSpec>& specs, BlockRecompute recompute, bool kept) {
  std::vector<BufferSpec> out;
  for (const BufferSpec& s : specs)
    if (is_saved(s, recompute) == kept) out.push_back(s);
  return out;
}

at::Tensor bytes(int64_t count, at::Device device) {
  return at::empty({count}, at::TensorOptions(at::kByte).device(device));
}

// Outputs that blocks pass to each other.
std::vector<BufferSpec> output_specs(const Shape& shape, int64_t width, DType dtype, const TensorSplit& tensor) {
  const std::vector<int64_t> stream = {tensor.stream_rows(shape.rows()), width};
  return {{"branch", stream, dtype},
          {"d_sum", stream, dtype},
          {"d_branch", stream, dtype},
          {"scale", {kFp8Scale}, DType::fp32}};
}

}  // namespace

std::vector<int64_t> Activations::kept_bytes(std::span<const std::unique_ptr<Block>> blocks, const Shape& shape,
                                             std::span<const BlockRecompute> recompute) {
  std::vector<int64_t> bytes;
  for (size_t b = 0; b < blocks.size(); ++b)
    bytes.push_back(bytes_of(filter(blocks[b]->saved(shape), recompute[b], true)));
  return bytes;
}

Activations::TemporaryBytes Activations::temporary_bytes(std::span<const std::unique_ptr<Block>> blocks,
                                                         const Shape& shape, std::span<const BlockRecompute> recompute,
                                                         int64_t width, DType dtype, const TensorSplit& tensor) {
  TemporaryBytes most{.outputs = bytes_of(output_specs(shape, width, dtype, tensor))};
  for (size_t b = 0; b < blocks.size(); ++b) {
    most.shared = std::max(most.shared, bytes_of(filter(blocks[b]->saved(shape), recompute[b], false)));
    most.scratch = std::max(most.scratch, bytes_of(blocks[b]->scratch(shape)));
  }
  return most;
}

Activations::Activations(std::span<const std::unique_ptr<Block>> blocks, const Shape& shape,
                         std::span<const BlockRecompute> recompute, std::span<const at::Tensor> kept_memory,
                         int64_t width, DType dtype, at::Device device, const TensorSplit& tensor)
    : shape_(shape), temporary_bytes_(temporary_bytes(blocks, shape, recompute, width, dtype, tensor)) {
  const at::Tensor shared_memory = bytes(temporary_bytes_.shared, device),
                   scratch_memory = bytes(temporary_bytes_.scratch, device), none = bytes(0, device);
  const std::vector<at::Tensor> out =
      carve(bytes(temporary_bytes_.outputs, device), output_specs(shape, width, dtype, tensor));
  outputs_ = {.branch = out[0], .d_sum = out[1], .d_branch = out[2], .scale = out[3]};
  for (const auto& block : blocks) scratch_.push_back(carve(scratch_memory, block->scratch(shape)));
  for (size_t i = 0; i < kept_memory.size(); ++i) {
    const size_t b = i % blocks.size();
    const std::vector<BufferSpec> specs = blocks[b]->saved(shape), kept = filter(specs, recompute[b], true),
                                  rest = filter(specs, recompute[b], false);
    if (!kept_memory[i].defined() && bytes_of(kept) > 0) {  // of another chunk
      saved_.emplace_back();
      continue;
    }
    const std::vector<at::Tensor> kept_views = carve(kept_memory[i].defined() ? kept_memory[i] : none, kept);
    const std::vector<at::Tensor> shared_views = carve(shared_memory, rest);
    Saved saved;
    size_t next_kept = 0, next_shared = 0;
    for (const BufferSpec& s : specs) {
      saved.kept.push_back(is_saved(s, recompute[b]));
      saved.slots.push_back(saved.kept.back() ? kept_views[next_kept++] : shared_views[next_shared++]);
    }
    saved_.push_back(std::move(saved));
  }
}

}  // namespace partita::internal
