// Splits the sequences of a dataset into training, validation and test parts.
//
//   const DataSplit split = parse_split("969,30,1");
//   SequenceRange train = split_range(split, SplitName::train, dataset.sequences());
//
// Parts are contiguous, unshuffled and measured in sequences, not tokens, as in Megatron-LM. Bounds are round(share *
// sequences), halves to even.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace partita {

enum class SplitName : uint8_t { train, valid, test };
[[nodiscard]] std::string_view name_of(SplitName);

struct DataSplit {
  std::array<double, 3> shares;  // train, valid, test: at least 0, sum 1
};

// Parses one to three comma-separated weights of any scale; missing ones are 0. Error: anything else.
[[nodiscard]] DataSplit parse_split(std::string_view text);

struct SequenceRange {
  int64_t begin = 0, end = 0;

  [[nodiscard]] int64_t size() const { return end - begin; }
  bool operator==(const SequenceRange&) const = default;
};

[[nodiscard]] SequenceRange split_range(const DataSplit& split, SplitName name, int64_t sequences);

}  // namespace partita
