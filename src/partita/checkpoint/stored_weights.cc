#include "partita/checkpoint/stored_weights.h"

#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/name_list.h"
#include "partita/checkpoint/reshard.h"

namespace partita::internal {
namespace {

constexpr std::string_view kPrefix = "model/";

}  // namespace

StoredWeights::StoredWeights(std::filesystem::path folder)
    : folder_(std::move(folder)),
      manifest_(read_manifest(folder_)),
      files_(std::make_unique<StoredFiles>(folder_, manifest_)) {
  for (const StoredTensor& tensor : manifest_.tensors)
    if (const std::string_view name = tensor.info.name; name.starts_with(kPrefix))
      tensors_[name.substr(kPrefix.size())] = &tensor;
}

const StoredTensor* StoredWeights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

void StoredWeights::check(std::span<const ParameterSpec> wanted) const {
  std::vector<std::string> missing, extra, shapes, types;
  std::set<std::string_view> names;
  for (const ParameterSpec& spec : wanted) {
    names.insert(spec.name);
    const StoredTensor* tensor = find(spec.name);
    if (!tensor) {
      missing.push_back(spec.name);
      continue;
    }
    const TensorInfo& info = tensor->info;
    if (info.shape != spec.shape)
      shapes.push_back(fmt::format("{} {} instead of {}", spec.name, shape_text(info.shape), shape_text(spec.shape)));
    if (!is_floating(element_type(info.dtype))) types.push_back(fmt::format("{} {}", spec.name, name_of(info.dtype)));
  }
  for (const auto& [name, tensor] : tensors_)
    if (!names.contains(name)) extra.emplace_back(name);
  std::string text;
  append_list(text, "missing from it", missing);
  append_list(text, "not in this model", extra);
  append_list(text, "of another shape", shapes);
  append_list(text, "of a dtype that is not supported", types);
  if (!text.empty()) fail("the weights in {} do not match the model: {}", folder_.string(), text);
}

void StoredWeights::read(const ParameterSpec& spec, const Box& box, std::span<float> out) const {
  const StoredTensor* tensor = find(spec.name);
  if (!tensor || tensor->info.shape != spec.shape)
    fail("{} holds no weight '{}' of shape {}", folder_.string(), spec.name, shape_text(spec.shape));
  check_box(spec, box, out);
  const ElementType type = element_type(tensor->info.dtype);
  files_->read(*tensor, box, [&](int64_t to, std::span<const std::byte> run) {
    to_fp32(type, run.data(), 1,
            out.subspan(static_cast<size_t>(to), run.size() / static_cast<size_t>(size_of(tensor->info.dtype))));
  });
}

}  // namespace partita::internal
