#include "partita/engine/activations.h"

#include <ATen/ops/empty.h>

#include <algorithm>

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

Activations::Activations(std::span<const std::unique_ptr<Block>> blocks, const Shape& shape, Keep all,
                         int first_trained, int64_t width, DType dtype, at::Device device)
    : shape_(shape) {
  const auto keep_of = [&](size_t block) { return static_cast<int>(block) < first_trained ? Keep::nothing : all; };
  const std::vector<int64_t> stream = {shape.rows(), width};
  const std::vector<BufferSpec> handed = {
      {"branch", stream, dtype}, {"d_sum", stream, dtype}, {"d_branch", stream, dtype}};
  int64_t shared = 0, scratch = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block* block = blocks[b].get();
    const Keep keep = keep_of(b);
    const std::vector<BufferSpec> specs = block->saved(shape);
    kept_bytes_ += bytes_of(filter(specs, keep, true));
    shared = std::max(shared, bytes_of(filter(specs, keep, false)));
    scratch = std::max(scratch, bytes_of(block->scratch(shape)));
  }
  temporary_bytes_ = shared + scratch + bytes_of(handed);

  const at::Tensor kept_memory = bytes(kept_bytes_, device), shared_memory = bytes(shared, device),
                   scratch_memory = bytes(scratch, device);
  const std::vector<at::Tensor> out = carve(bytes(bytes_of(handed), device), handed);
  handed_ = {.branch = out[0], .d_sum = out[1], .d_branch = out[2]};
  int64_t offset = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block* block = blocks[b].get();
    const Keep keep = keep_of(b);
    const std::vector<BufferSpec> specs = block->saved(shape), kept = filter(specs, keep, true),
                                  rest = filter(specs, keep, false);
    const std::vector<at::Tensor> kept_views = carve(kept_memory.narrow(0, offset, bytes_of(kept)), kept);
    const std::vector<at::Tensor> shared_views = carve(shared_memory, rest);
    offset += bytes_of(kept);
    Saved saved;
    size_t next_kept = 0, next_shared = 0;
    for (const BufferSpec& s : specs) {
      saved.kept.push_back(keep >= s.from);
      saved.slots.push_back(saved.kept.back() ? kept_views[next_kept++] : shared_views[next_shared++]);
    }
    saved_.push_back(std::move(saved));
    scratch_.push_back(carve(scratch_memory, block->scratch(shape)));
  }
}

}  // namespace partita
