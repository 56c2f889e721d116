#include "partita/data/gpt_index.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "partita/base/error.h"
#include "partita/data/numpy_random.h"

namespace partita {
using namespace internal;
namespace {

// Start of each sample when the sequences are concatenated, and the end of the last one.
std::vector<TokenPosition> lay_out(std::span<const int64_t> sequences, int64_t first_id,
                                   std::span<const int32_t> lengths, int64_t sequence_length, int64_t samples) {
  std::vector<TokenPosition> starts;
  starts.reserve(static_cast<size_t>(samples) + 1);
  TokenPosition at{0, 0};
  starts.push_back(at);
  for (int64_t sample = 0; sample < samples; ++sample) {
    // Advance by L tokens: samples have L + 1 tokens and share one with the next sample.
    int64_t wanted = sequence_length + 1;
    for (;;) {
      const int64_t id = sequences[static_cast<size_t>(at.entry)];
      const int64_t available = lengths[static_cast<size_t>(id - first_id)] - at.offset;
      if (available >= wanted) break;
      wanted -= available;
      at = {at.entry + 1, 0};
    }
    at.offset += wanted - 1;
    starts.push_back(at);
  }
  return starts;
}

}  // namespace

EpochPlan plan_epochs(const GptIndexSpec& spec, int64_t sequences, int64_t tokens) {
  const int64_t length = spec.sequence_length;
  if (length < 1) fail("sequence_length {}: at least 1 expected", length);
  const int64_t most = (std::numeric_limits<int64_t>::max() / 2 - tokens) / length;
  if (spec.samples < 0 || spec.samples > most)
    fail("split \"{}\": {} samples asked for, 0 to {} of {} tokens expected: lower train.steps or train.global_batch",
         spec.split, spec.samples, most, length);
  if (tokens < length + 1) {
    fail(
        "split \"{}\" has {} tokens in {} sequences, but one sample needs {}: use a "
        "shorter sequence_length, give the split a larger share, or tokenize more text",
        spec.split, tokens, sequences, length + 1);
  }
  const auto whole_samples = [&](int64_t epochs) { return (epochs * tokens - 1) / length; };
  EpochPlan plan;
  if (spec.samples > 0) plan.epochs = (spec.samples * length + 1 + tokens - 1) / tokens;
  plan.samples = whole_samples(plan.epochs);
  if (plan.epochs > 1) {
    plan.samples_before_last = whole_samples(plan.epochs - 1);
    const int64_t from_last = spec.samples - plan.samples_before_last;
    plan.separate_last = from_last < static_cast<int64_t>(0.80 * static_cast<double>(whole_samples(1)));
  }
  return plan;
}

int64_t gpt_index_bytes(const EpochPlan& plan, int64_t sequences) {
  const double bytes =
      static_cast<double>(plan.epochs) * static_cast<double>(sequences) * sizeof(int64_t) +
      static_cast<double>(plan.samples + 1) * static_cast<double>(sizeof(TokenPosition) + sizeof(int64_t));
  constexpr auto kMost = static_cast<double>(int64_t{1} << 62);
  return static_cast<int64_t>(std::min(bytes, kMost));
}

GptIndex build_gpt_index(SequenceRange range, std::span<const int32_t> lengths, const GptIndexSpec& spec) {
  PARTITA_CHECK(static_cast<int64_t>(lengths.size()) == range.size(), "{} lengths for {} sequences", lengths.size(),
                range.size());
  GptIndex index;
  index.plan = plan_epochs(spec, range.size(), std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
  const EpochPlan& plan = index.plan;
  NumpyRandom random(spec.seed);

  index.sequences.resize(static_cast<size_t>(plan.epochs * range.size()));
  for (size_t i = 0; i < index.sequences.size(); ++i) {
    index.sequences[i] = range.begin + static_cast<int64_t>(i) % range.size();
  }
  const std::span<int64_t> sequences(index.sequences);
  const auto last_epoch = static_cast<size_t>((plan.epochs - 1) * range.size());
  random.shuffle(plan.separate_last ? sequences.first(last_epoch) : sequences);
  if (plan.separate_last) random.shuffle(sequences.subspan(last_epoch));

  index.starts = lay_out(sequences, range.begin, lengths, spec.sequence_length, plan.samples);

  index.shuffle.resize(static_cast<size_t>(plan.samples));
  std::iota(index.shuffle.begin(), index.shuffle.end(), int64_t{0});
  const std::span<int64_t> order(index.shuffle);
  const auto before_last = static_cast<size_t>(plan.samples_before_last);
  random.shuffle(plan.separate_last ? order.first(before_last) : order);
  if (plan.separate_last) random.shuffle(order.subspan(before_last));
  return index;
}

}  // namespace partita
