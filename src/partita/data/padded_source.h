// Samples followed by empty ones, so that the last batch is full and ranks without samples have something to compute:
//
//   const PaddedSource padded(windows, plan.global_batch);     // of windows.size() rounded up to a multiple
#pragma once
#include "partita/data/sample_source.h"

namespace partita {

class PaddedSource : public SampleSource {
 public:
  // Keeps a reference to `source`.
  PaddedSource(const SampleSource& source, int64_t multiple)
      : source_(&source), size_((source.size() + multiple - 1) / multiple * multiple) {}

  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] int64_t sequence_length() const override { return source_->sequence_length(); }
  [[nodiscard]] Documents documents() const override { return source_->documents(); }
  // Beyond the source's end there is padding alone.
  void read(int64_t k, const SampleSlots& out) const override {
    if (k >= source_->size() && k < size_)
      pad_from(out, 0);
    else
      source_->read(k, out);
  }

 private:
  const SampleSource* source_;
  int64_t size_;
};

}  // namespace partita
