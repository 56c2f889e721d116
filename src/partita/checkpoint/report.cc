#include "partita/checkpoint/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "partita/base/file.h"
#include "partita/checkpoint/reshard.h"

namespace partita::internal {
namespace {

struct Kind {  // "model" in "model/layers.0.mlp.up.weight"
  std::string_view name;
  int64_t tensors = 0, elements = 0, bytes = 0;
};

std::string_view kind_of(const TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  const size_t slash = name.find('/');
  return slash == std::string_view::npos ? "" : name.substr(0, slash);
}

int64_t bytes_of(const TensorInfo& tensor) { return tensor.count() * size_of(tensor.dtype); }

std::vector<Kind> totals(const Manifest& manifest) {
  std::vector<Kind> kinds;
  for (const StoredTensor& tensor : manifest.tensors) {
    auto kind = std::ranges::find(kinds, kind_of(tensor.info), &Kind::name);
    if (kind == kinds.end()) kind = kinds.insert(kind, Kind{kind_of(tensor.info)});
    ++kind->tensors;
    kind->elements += tensor.info.count();
    kind->bytes += bytes_of(tensor.info);
  }
  return kinds;
}

// Appends nested objects as "model.layers".
void append_scalars(std::string& text, const std::string& prefix, const nlohmann::json& value) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, item] : value.items()) append_scalars(text, prefix.empty() ? key : prefix + "." + key, item);
  } else if (!prefix.empty()) {
    fmt::format_to(std::back_inserter(text), "  {:<32} {}\n", prefix, value.dump());
  }
}

}  // namespace

std::string checkpoint_report(const Manifest& manifest, const ReportOptions& options) {
  std::string text =
      fmt::format("step {}, written by {} rank{}\n", manifest.step, manifest.ranks, manifest.ranks == 1 ? "" : "s");
  const auto out = std::back_inserter(text);
  text += "scalars\n";
  append_scalars(text, "", manifest.scalars);
  text += "files\n";
  for (const StoredFile& file : manifest.files)
    fmt::format_to(out, "  {:<32} {:>10}\n", file.name, human_bytes(file.bytes));
  text += "tensors\n";
  for (const Kind& kind : totals(manifest))
    fmt::format_to(out, "  {:<32} {:>10}  {} tensors, {} elements\n", kind.name.empty() ? "(no kind)" : kind.name,
                   human_bytes(kind.bytes), kind.tensors, kind.elements);
  if (!options.tensors) return text;
  size_t width = 0;
  for (const StoredTensor& tensor : manifest.tensors) width = std::max(width, tensor.info.name.size());
  text += "\n";
  for (const StoredTensor& tensor : manifest.tensors)
    fmt::format_to(out, "  {:<{}}  {:<5} {:<16} {:>10}  {} piece{}\n", tensor.info.name, width,
                   name_of(tensor.info.dtype), shape_text(tensor.info.shape), human_bytes(bytes_of(tensor.info)),
                   tensor.pieces.size(), tensor.pieces.size() == 1 ? "" : "s");
  return text;
}

}  // namespace partita::internal
