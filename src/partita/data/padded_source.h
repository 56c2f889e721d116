// Appends empty samples, so that the last batch is full and every rank has something to compute:
//
//   const PaddedSource padded(windows, windows.size(), plan.global_batch);     // size: rounded up to a multiple
#pragma once
#include <algorithm>

#include "partita/base/error.h"
#include "partita/data/sample_source.h"

namespace partita::internal {

class PaddedSource : public SampleSource {
 public:
  // The first `samples` of the source, or all if it has fewer. Keeps a reference to the source.
  PaddedSource(const SampleSource& source, int64_t samples, int64_t multiple)
      : source_(&source),
        samples_(std::min(samples, source.size())),
        size_((samples_ + multiple - 1) / multiple * multiple) {}

  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] int64_t sequence_length() const override { return source_->sequence_length(); }
  [[nodiscard]] Documents documents() const override { return source_->documents(); }
  // Past the samples there is only padding.
  void read(int64_t k, const SampleSlots& out) const override {
    if (k < 0 || k >= size_) fail("sample {} asked for, there are {}", k, size_);
    if (k < samples_)
      source_->read(k, out);
    else
      pad_from(out, 0);
  }

 private:
  const SampleSource* source_;
  int64_t samples_, size_;
};

}  // namespace partita::internal
