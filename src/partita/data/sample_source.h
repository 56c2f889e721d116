// What batches are read from: samples of one length, by number.
//
//   std::unique_ptr<SampleSource> source = ...;    // GptDataset, PromptDataset, TokenWindows
//   source->read(k, {tokens, labels, positions, first_keys});
//
// Sample k is the same at every call, on every rank and in every run with the same settings.
#pragma once
#include <cstdint>
#include <span>

#include "partita/base/label.h"

namespace partita {

// Whether the documents of one sample see each other. separate: positions begin anew in each document, and a token
// reads only keys of its own.
enum class Documents : uint8_t { joined, separate };

// Where a sample goes, each span of sequence_length().
struct SampleSlots {
  std::span<int32_t> tokens;
  std::span<int32_t> labels;      // the token that follows, or kIgnoredLabel
  std::span<int32_t> positions;   // that the model is told
  std::span<int32_t> first_keys;  // where the token's document begins in the sample; empty unless separate
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  [[nodiscard]] virtual int64_t size() const = 0;  // samples
  [[nodiscard]] virtual int64_t sequence_length() const = 0;
  [[nodiscard]] virtual Documents documents() const = 0;
  // Sample k; thread-safe. Error: k outside 0 .. size()-1.
  virtual void read(int64_t k, const SampleSlots& out) const = 0;
};

// The slots from `at` on become padding, which no other slot sees: token 0, no label, going on with the positions. With
// first_keys each sees itself alone.
void pad_from(const SampleSlots& out, int64_t at);

}  // namespace partita
