#include "partita/train/batch_loader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <numeric>

#include "partita/base/error.h"
#include "partita/nn/context_parallel.h"

namespace partita {
using namespace internal;

BatchLoader::BatchLoader(std::shared_ptr<const SampleSource> samples, BatchSizes sizes, int rank, int ranks)
    : samples_(std::move(samples)),
      reader_(*samples_, make_batch_plan(sizes.global_batch, sizes.micro_batch, ranks), rank),
      context_(sizes.context),
      buffers_(static_cast<size_t>(reader_.plan().accumulation())) {}

std::vector<Batch> BatchLoader::read(int64_t consumed_samples) {
  std::vector<Batch> batches;
  for (size_t m = 0; m < buffers_.size(); ++m) {
    reader_.read(consumed_samples, static_cast<int64_t>(m), buffers_[m]);
    batches.push_back(take_pieces(view_of(buffers_[m]), context_));
  }
  return batches;
}

Batch make_batch(const at::Tensor& ids, int64_t first_sample) {
  if (ids.dim() != 2 || ids.size(0) < 1 || ids.size(1) < 2 || !ids.is_cpu() ||
      !at::isIntegralType(ids.scalar_type(), false))
    fail("make_batch: expected integers [samples, length + 1] in host memory, found [{}] of type {} on {}",
         fmt::join(ids.sizes(), ", "), c10::toString(ids.scalar_type()), ids.device().str());
  const int64_t samples = ids.size(0), length = ids.size(1) - 1;
  const at::Tensor narrow = ids.to(at::kInt);
  if (!narrow.to(ids.scalar_type()).equal(ids)) fail("make_batch: a token id is beyond 32 bits");
  std::vector<int64_t> numbers(static_cast<size_t>(samples));
  std::iota(numbers.begin(), numbers.end(), first_sample);
  return {.tokens = narrow.narrow(1, 0, length).contiguous(),
          .labels = narrow.narrow(1, 1, length).contiguous(),
          .positions = at::arange(length, at::kInt).expand({samples, length}).contiguous(),
          .samples = std::move(numbers),
          .first_keys = {}};
}

namespace internal {

Batch view_of(TokenBatch& buffer) {
  const auto view = [&](std::vector<int32_t>& values) {
    return values.empty() ? at::Tensor() : at::from_blob(values.data(), {buffer.samples, buffer.length}, at::kInt);
  };
  return {.tokens = view(buffer.tokens),
          .labels = view(buffer.labels),
          .positions = view(buffer.positions),
          .samples = buffer.sample_ids,
          .first_keys = view(buffer.first_keys)};
}

}  // namespace internal
}  // namespace partita
