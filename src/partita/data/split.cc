#include "partita/data/split.h"

#include <cmath>

#include "partita/base/comma_list.h"
#include "partita/base/error.h"
#include "partita/base/number.h"

namespace partita {
using namespace internal;

std::string_view name_of(SplitName name) {
  constexpr std::array<std::string_view, 3> kNames = {"train", "valid", "test"};
  return kNames[static_cast<size_t>(name)];
}

DataSplit parse_split(std::string_view text) {
  const auto wrong = [text]() {
    fail("split \"{}\": one to three weights with commas expected (train, valid, test), such as \"969,30,1\"", text);
  };
  DataSplit split{};
  double sum = 0;
  const std::vector<std::string_view> items = comma_list(text);
  if (items.size() > split.shares.size()) wrong();
  for (size_t i = 0; i < items.size(); ++i) {
    const auto weight = parse_number<double>(items[i]);
    if (!weight || !std::isfinite(*weight) || *weight < 0) wrong();
    split.shares[i] = *weight;
    sum += *weight;
  }
  if (!(sum > 0) || !std::isfinite(sum)) wrong();
  for (double& share : split.shares) share /= sum;
  return split;
}

SequenceRange split_range(const DataSplit& split, SplitName name, int64_t sequences) {
  // Same order of summation as Megatron; nearbyint rounds halves to even, like Python's round.
  const auto bound = [sequences](double share) {
    return static_cast<int64_t>(std::nearbyint(share * static_cast<double>(sequences)));
  };
  double begin = 0;
  for (size_t i = 0; i < static_cast<size_t>(name); ++i) begin += split.shares[i];
  return {bound(begin), bound(begin + split.shares[static_cast<size_t>(name)])};
}

}  // namespace partita
