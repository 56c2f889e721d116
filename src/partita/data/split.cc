#include "partita/data/split.h"

#include <charconv>
#include <cmath>

#include "partita/base/error.h"

namespace partita {

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
  size_t count = 0;
  for (std::string_view rest = text;; ++count) {
    const size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    double weight = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), weight);
    const bool whole = error == std::errc() && end == item.data() + item.size();
    if (count == 3 || !whole || !std::isfinite(weight) || weight < 0) wrong();
    split.shares[count] = weight;
    sum += weight;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (!(sum > 0) || !std::isfinite(sum)) wrong();
  for (double& share : split.shares) share /= sum;
  return split;
}

SequenceRange split_range(const DataSplit& split, SplitName name, int64_t sequences) {
  // The sums in the order in which Megatron makes them; nearbyint rounds halves to even, as Python's round.
  const auto bound = [sequences](double share) {
    return static_cast<int64_t>(std::nearbyint(share * static_cast<double>(sequences)));
  };
  double begin = 0;
  for (size_t i = 0; i < static_cast<size_t>(name); ++i) begin += split.shares[i];
  return {bound(begin), bound(begin + split.shares[static_cast<size_t>(name)])};
}

}  // namespace partita
