// Samples of several datasets in one order, by weight (blend.h).
//
//   const BlendedDataset train({{0.7, web, range_of_web}, {0.3, books, range_of_books}},
//                              {.split = "train", .sequence_length = 1024, .samples = steps * global_batch}, options);
//
// Each part is a GptDataset with the samples that the blend takes from it, plus 0.5%. The same parts, weights, samples
// and seed give the same samples as Megatron-LM's BlendedDataset. An extended blend begins with the shorter one.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "partita/data/blend.h"
#include "partita/data/gpt_dataset.h"

namespace partita::internal {

class BlendedDataset : public SampleSource {
 public:
  struct Part {
    double weight;
    std::shared_ptr<const IndexedDataset> tokens;
    SequenceRange range;
    IndexCache cache;  // for this part's own order
  };

  // options.cache stores the order of the blend. Error: no parts; those of GptDataset.
  BlendedDataset(const std::vector<Part>& parts, const GptIndexSpec& spec, const GptDataset::Options& options);

  [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(dataset_.size()); }
  [[nodiscard]] int64_t sequence_length() const override { return parts_[0].sequence_length(); }
  [[nodiscard]] Documents documents() const override { return parts_[0].documents(); }
  void read(int64_t k, const SampleSlots& out) const override;

  [[nodiscard]] const std::vector<GptDataset>& parts() const { return parts_; }
  // Sample k is sample samples()[k] of parts()[datasets()[k]].
  [[nodiscard]] std::span<const int16_t> datasets() const { return dataset_; }
  [[nodiscard]] std::span<const int64_t> samples() const { return sample_; }

 private:
  std::vector<GptDataset> parts_;
  std::shared_ptr<const void> owner_;
  std::span<const int16_t> dataset_;
  std::span<const int64_t> sample_;
};

}  // namespace partita::internal
