#include "partita/interop/llmc_weights.h"

#include <set>
#include <vector>

#include "partita/base/error.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/name_list.h"
#include "partita/checkpoint/reshard.h"

namespace partita::internal {

LlmcWeights::LlmcWeights(const std::filesystem::path& path)
    : file_(path, MappedFile::Access::sequential), header_(parse_llmc(file_.bytes(), path)) {
  for (const LlmcTensor& tensor : llmc_tensors(header_)) tensors_.emplace(tensor.parameter.name, tensor);
}

const LlmcTensor* LlmcWeights::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void LlmcWeights::check(std::span<const ParameterSpec> wanted) const {
  std::vector<std::string> missing, extra, shapes;
  std::set<std::string> names;
  for (const ParameterSpec& spec : wanted) {
    names.insert(spec.name);
    const LlmcTensor* tensor = find(spec.name);
    if (tensor == nullptr) {
      missing.push_back(spec.name);
    } else if (tensor->parameter.shape != spec.shape) {
      shapes.push_back(
          fmt::format("{} {} instead of {}", spec.name, shape_text(tensor->parameter.shape), shape_text(spec.shape)));
    }
  }
  for (const auto& [name, tensor] : tensors_)
    if (!names.contains(name)) extra.push_back(name);
  std::string text;
  append_list(text, "missing from it", missing);
  append_list(text, "not in this model", extra);
  append_list(text, "of another shape", shapes);
  if (!text.empty()) fail("{} holds other weights than the model's: {}", file_.path().string(), text);
}

void LlmcWeights::read(const ParameterSpec& spec, const Box& box, std::span<float> out) const {
  const LlmcTensor* tensor = find(spec.name);
  PARTITA_CHECK(tensor != nullptr && tensor->parameter.shape == spec.shape, "{} of {}", spec.name,
                file_.path().string());
  check_box(spec, box, out);
  const Box whole = whole_box(spec.shape);
  const std::byte* data = file_.bytes().data() + kLlmcHeaderBytes + tensor->offset * size_of(header_.dtype);
  for (const BoxCopy& copy : copies_between(whole, box))
    to_fp32(element_type(header_.dtype), data + copy.from * size_of(header_.dtype), 1,
            out.subspan(static_cast<size_t>(copy.to), static_cast<size_t>(copy.count)));
}

}  // namespace partita::internal
