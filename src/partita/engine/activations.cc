#include "partita/engine/activations.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "partita/ops/fp8.h"

namespace partita {
namespace {

std::vector<BufferSpec> filter(const std::vector<BufferSpec>& specs, Keep keep, bool kept) {
  std::vector<BufferSpec> out;
  for (const BufferSpec& s : specs)
    if ((keep >= s.from) == kept) out.push_back(s);
  return out;
}

at::Tensor bytes(int64_t count, at::Device device) {
  return at::empty({count}, at::TensorOptions(at::kByte).device(device));
}

}  // namespace

std::vector<int64_t> Activations::kept_bytes(std::span<const std::unique_ptr<Block>> blocks, const Shape& shape,
                                             std::span<const Keep> keeps) {
  std::vector<int64_t> bytes;
  for (size_t b = 0; b < blocks.size(); ++b) bytes.push_back(bytes_of(filter(blocks[b]->saved(shape), keeps[b], true)));
  return bytes;
}

Activations::Activations(std::span<const std::unique_ptr<Block>> blocks, const Shape& shape,
                         std::span<const Keep> keeps, std::span<const at::Tensor> kept_memory, int64_t width,
                         DType dtype, at::Device device)
    : shape_(shape) {
  const std::vector<int64_t> stream = {shape.rows(), width};
  const std::vector<BufferSpec> handed = {{"branch", stream, dtype},
                                          {"d_sum", stream, dtype},
                                          {"d_branch", stream, dtype},
                                          {"scale", {kFp8Scale}, DType::fp32}};
  int64_t shared = 0, scratch = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const std::vector<BufferSpec> specs = blocks[b]->saved(shape);
    shared = std::max(shared, bytes_of(filter(specs, keeps[b], false)));
    scratch = std::max(scratch, bytes_of(blocks[b]->scratch(shape)));
  }
  temporary_bytes_ = shared + scratch + bytes_of(handed);

  const at::Tensor shared_memory = bytes(shared, device), scratch_memory = bytes(scratch, device),
                   none = bytes(0, device);
  const std::vector<at::Tensor> out = carve(bytes(bytes_of(handed), device), handed);
  handed_ = {.branch = out[0], .d_sum = out[1], .d_branch = out[2], .scale = out[3]};
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block* block = blocks[b].get();
    const std::vector<BufferSpec> specs = block->saved(shape), kept = filter(specs, keeps[b], true),
                                  rest = filter(specs, keeps[b], false);
    const std::vector<at::Tensor> kept_views = carve(kept_memory[b].defined() ? kept_memory[b] : none, kept);
    const std::vector<at::Tensor> shared_views = carve(shared_memory, rest);
    Saved saved;
    size_t next_kept = 0, next_shared = 0;
    for (const BufferSpec& s : specs) {
      saved.kept.push_back(keeps[b] >= s.from);
      saved.slots.push_back(saved.kept.back() ? kept_views[next_kept++] : shared_views[next_shared++]);
    }
    saved_.push_back(std::move(saved));
    scratch_.push_back(carve(scratch_memory, block->scratch(shape)));
  }
}

}  // namespace partita
