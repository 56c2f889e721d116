// Batches for Engine::step and Engine::evaluate: from a source of samples, or from token ids in memory.
//
//   const auto tokens = std::make_shared<const IndexedDataset>("data/tokens_text_document");
//   const auto samples = std::make_shared<const GptDataset>(
//       tokens, SequenceRange{0, tokens->sequences()}, GptIndexSpec{.sequence_length = 1024, .samples = steps * 64});
//   BatchLoader loader(samples, {.global_batch = 64, .micro_batch = 8}, mesh.data());
//   engine.step(loader.read(step * 64), {.step = step, .update = step, .learning_rate = 6e-4F});
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "partita/base/context_split.h"
#include "partita/comm/communicator.h"
#include "partita/data/batch_plan.h"
#include "partita/data/batch_reader.h"
#include "partita/data/sample_source.h"
#include "partita/nn/block.h"

namespace partita {

struct BatchSizes {
  int64_t global_batch = 1;  // samples per step, over all ranks
  int64_t micro_batch = 1;   // samples per rank in one forward and backward pass
  ContextSplit context;      // which pieces of each sample this rank takes
};

class BatchLoader {
 public:
  // rank, ranks: data-parallel. Error: global_batch is not a multiple of micro_batch x ranks; names the nearest that
  // are.
  BatchLoader(std::shared_ptr<const SampleSource>, BatchSizes, int rank, int ranks);
  BatchLoader(std::shared_ptr<const SampleSource> samples, BatchSizes sizes, const Communicator& data)
      : BatchLoader(std::move(samples), sizes, data.rank(), data.size()) {}

  // This rank's micro-batches of the step that begins after `consumed_samples` samples: the same samples per step on
  // any number of ranks, of which each takes its pieces. Views of buffers that the next call overwrites. Error: beyond
  // the end of the source.
  [[nodiscard]] std::vector<Batch> read(int64_t consumed_samples);

  [[nodiscard]] int micro_batches() const { return static_cast<int>(buffers_.size()); }  // per step, on this rank

 private:
  std::shared_ptr<const SampleSource> samples_;
  internal::BatchReader reader_;
  ContextSplit context_;
  std::vector<internal::TokenBatch> buffers_;  // [micro-batch]
};

// A micro-batch of `ids` [samples, length + 1], integers of any type in host memory: each token's label is the next
// one. `first_sample` numbers the samples of the run, which is what dropout masks are drawn from. Error: another shape.
[[nodiscard]] Batch make_batch(const at::Tensor& ids, int64_t first_sample = 0);

namespace internal {
// A micro-batch as the engine takes it: views of the buffer.
[[nodiscard]] Batch view_of(TokenBatch& buffer);
}  // namespace internal

}  // namespace partita
