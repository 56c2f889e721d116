// Reads a token file as one text in adjacent windows, for evaluation, which counts every token once.
//
//   const TokenWindows windows(std::make_shared<const IndexedDataset>("data/text_document"), 1024);
//   for (int64_t k = 0; k < windows.size(); ++k) windows.read(k, slots);
//
// Window k has inputs k*L .. k*L + L-1 of all sequences concatenated; the first token of the file is never predicted.
// The last window may be padded.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "partita/data/indexed_dataset.h"
#include "partita/data/sample_source.h"

namespace partita::internal {

class TokenWindows : public SampleSource {
 public:
  // Error: fewer than two tokens.
  TokenWindows(std::shared_ptr<const IndexedDataset> tokens, int64_t sequence_length);

  [[nodiscard]] int64_t size() const override;
  [[nodiscard]] int64_t sequence_length() const override { return sequence_length_; }
  [[nodiscard]] Documents documents() const override { return Documents::joined; }
  void read(int64_t k, const SampleSlots& out) const override;

 private:
  std::shared_ptr<const IndexedDataset> tokens_;
  int64_t sequence_length_;
  std::vector<int64_t> begins_;  // offset of each sequence among all tokens; one more for the end
};

}  // namespace partita::internal
