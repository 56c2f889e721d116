#include "partita/checkpoint/reshard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/name_list.h"

namespace partita::internal {
namespace {

bool begins_with_any(std::string_view name, std::span<const std::string> prefixes) {
  return std::ranges::any_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<Copy> plan_copies(std::span<const StoredPiece> pieces, const Box& wanted) {
  std::vector<Copy> copies;
  for (size_t p = 0; p < pieces.size() && pieces[p].boxes[0].row < wanted.row + wanted.rows; ++p) {
    int64_t begin = 0;  // offset of the box in its piece
    for (const Box& box : pieces[p].boxes) {
      for (const BoxCopy& copy : copies_between(box, wanted))
        copies.push_back({static_cast<int>(p), begin + copy.from, copy.to, copy.count});
      begin += box.count();
    }
  }
  return copies;
}

std::string describe_differences(std::span<const StoredTensor> stored, std::span<const TensorInfo> wanted,
                                 std::span<const std::string> ignore) {
  std::map<std::string_view, const TensorInfo*> in_file;
  for (const StoredTensor& tensor : stored) in_file.emplace(tensor.info.name, &tensor.info);
  std::vector<std::string> missing, extra, shapes, dtypes;
  for (const TensorInfo& tensor : wanted) {
    const auto node = in_file.extract(tensor.name);
    if (node.empty()) {
      missing.push_back(tensor.name);
      continue;
    }
    const TensorInfo& other = *node.mapped();
    if (other.shape != tensor.shape)
      shapes.push_back(
          fmt::format("{} {} instead of {}", tensor.name, shape_text(other.shape), shape_text(tensor.shape)));
    if (!convertible(other.dtype, tensor.dtype))
      dtypes.push_back(fmt::format("{} {} instead of {}", tensor.name, name_of(other.dtype), name_of(tensor.dtype)));
  }
  for (const auto& [name, info] : in_file)
    if (!begins_with_any(name, ignore)) extra.emplace_back(name);
  std::string text;
  append_list(text, "missing from it", missing);
  append_list(text, "not in this model", extra);
  append_list(text, "of another shape", shapes);
  append_list(text, "of another dtype", dtypes);
  return text;
}

std::vector<std::string> describe_conversions(std::span<const StoredTensor> stored,
                                              std::span<const TensorInfo> wanted) {
  std::map<std::string_view, DType> dtypes;
  for (const StoredTensor& tensor : stored) dtypes.emplace(tensor.info.name, tensor.info.dtype);
  std::map<std::pair<DType, DType>, int64_t> conversions;
  for (const TensorInfo& tensor : wanted)
    if (const auto found = dtypes.find(tensor.name); found != dtypes.end() && found->second != tensor.dtype)
      ++conversions[{found->second, tensor.dtype}];
  std::vector<std::string> lines;
  for (const auto& [types, count] : conversions)
    lines.push_back(fmt::format("{} tensor{} from {} to {}, {}", count, count == 1 ? "" : "s", name_of(types.first),
                                name_of(types.second),
                                rounds(types.first, types.second) ? "rounded to nearest" : "exactly"));
  return lines;
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace partita::internal
