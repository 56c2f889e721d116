// Interface for data sources: fixed-length samples, addressed by index.
//
//   const SampleSource& source = dataset;         // a GptDataset, a PromptDataset or a source of your own
//   source.read(k, {token_ids, labels, positions, first_keys});
//
// Sample k is the same on every call, on every rank, and in every run with the same settings.
#pragma once
#include <cstdint>
#include <span>

#include "partita/base/label.h"

namespace partita {

// Whether documents within a sample attend to each other. separate: positions restart at each document, and tokens
// attend only to keys of their own document.
enum class Documents : uint8_t { joined, separate };

// Destination of a sample; each span has sequence_length() elements.
struct SampleSlots {
  std::span<int32_t> tokens;
  std::span<int32_t> labels;     // the next token, or kIgnoredLabel
  std::span<int32_t> positions;  // positions passed to the model
  std::span<int32_t>
      first_keys;  // index of the token's first visible key, where its document begins; empty unless separate
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  [[nodiscard]] virtual int64_t size() const = 0;  // number of samples
  [[nodiscard]] virtual int64_t sequence_length() const = 0;
  [[nodiscard]] virtual Documents documents() const = 0;
  // Reads sample k. Thread-safe. Error: k outside 0 .. size()-1.
  virtual void read(int64_t k, const SampleSlots& out) const = 0;
};

// Fills the slots from `at` on with padding: token 0, no label, positions continuing. With first_keys, each slot
// attends only to itself. No other slot attends to padding.
void pad_from(const SampleSlots& out, int64_t at);

}  // namespace partita
