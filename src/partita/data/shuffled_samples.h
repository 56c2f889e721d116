// The samples of a rank, batch after batch without end, in a shuffled order that can be entered anywhere: a run goes on
// where it was interrupted, also on another number of ranks. Epoch after epoch, each sample occurs once.
//
//   ShuffledSamples order({.samples = 50'000, .rank = dp.rank(), .ranks = dp.size(), .first = 6400});
//   std::vector<size_t> batch = *order.next(32);     // of this rank: 32 of the 32 * ranks samples from number 6400 on
//
// A sampler for torch::data, too, whose loader asks for batches of its batch_size:
//
//   auto loader = torch::data::make_data_loader(dataset, order, torch::data::DataLoaderOptions(32));
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace partita {

class ShuffledSamples {
 public:
  struct Options {
    int64_t samples = 0;  // of the data set
    uint64_t seed = 1234;
    int rank = 0, ranks = 1;  // data parallel: each has other samples
    int64_t first = 0;        // number of the first sample, over all ranks and epochs: RunCounts::consumed_samples
  };
  using BatchRequestType = std::vector<size_t>;  // as torch::data has it

  // Error: no samples; a rank out of range; first below 0.
  explicit ShuffledSamples(const Options&);

  // Indices into the data set. After k batches of n for each rank, this is of samples first + (k * ranks + rank) * n
  // and those after it. There is always one.
  [[nodiscard]] std::optional<std::vector<size_t>> next(size_t batch);
  // To the first sample: torch's loader calls it when it begins.
  void reset(std::optional<size_t> = {}) { at_ = options_.first; }

 private:
  [[nodiscard]] size_t index_of(int64_t number);

  Options options_;
  int64_t at_;
  int64_t epoch_ = -1;          // of order_
  std::vector<int64_t> order_;  // of an epoch
};

}  // namespace partita
