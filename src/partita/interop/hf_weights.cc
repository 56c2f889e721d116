#include "partita/interop/hf_weights.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/name_list.h"
#include "partita/checkpoint/reshard.h"
#include "partita/interop/strided_elements.h"

namespace partita::internal {
namespace {

// A Hugging Face tensor viewed in our row order. A vector is one row.
StridedElements elements_of(const MappedTensor& tensor, bool transposed) {
  if (tensor.shape.size() == 1) return {tensor.type, tensor.bytes.data(), 0, tensor.strides[0]};
  const size_t row = transposed ? 1 : 0, column = 1 - row;
  return {tensor.type, tensor.bytes.data(), tensor.strides[row], tensor.strides[column]};
}

}  // namespace

HfNaming hf_naming(const ModelConfig& model) {
  HfNaming naming{.parameters = hf_parameters(model),
                  .optional_prefix = std::string(hf_prefix(model.kind)),
                  .is_ignorable = [kind = model.kind](std::string_view name) { return is_hf_buffer(name, kind); }};
  if (model.has_tied_head()) {
    naming.copy = kHfHead;
    naming.original = naming.parameters[0].pieces[0].name;
  }
  return naming;
}

HfWeights::HfWeights(HfFolder folder, HfNaming naming) : folder_(std::move(folder)), naming_(std::move(naming)) {
  for (const HfParameter& p : naming_.parameters) parameters_[p.name] = &p;
}

const MappedTensor* HfWeights::find(std::string_view name) const {
  const MappedTensor* tensor = find_itself(name);
  return tensor == nullptr && !name.empty() && name == naming_.original ? find_itself(naming_.copy) : tensor;
}

const MappedTensor* HfWeights::find_itself(std::string_view name) const {
  if (const MappedTensor* tensor = folder_.find(name)) return tensor;
  if (!naming_.optional_prefix.empty() && name.starts_with(naming_.optional_prefix))
    return folder_.find(name.substr(naming_.optional_prefix.size()));
  return nullptr;
}

const HfParameter* HfWeights::parameter(std::string_view name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : found->second;
}

void HfWeights::check(std::span<const ParameterSpec> wanted) const {
  std::vector<std::string> missing, extra, shapes, types;
  std::set<const MappedTensor*> used;
  for (const ParameterSpec& spec : wanted) {
    const HfParameter* p = parameter(spec.name);
    if (!p) {
      missing.push_back(spec.name);
      continue;
    }
    if (p->shape != spec.shape)
      shapes.push_back(fmt::format("{} {} instead of {}", p->name, shape_text(p->shape), shape_text(spec.shape)));
    for (const HfPiece& piece : p->pieces) {
      const MappedTensor* tensor = find(piece.name);
      if (!tensor) {
        missing.push_back(piece.name);
        continue;
      }
      used.insert(tensor);
      if (tensor->shape != piece.shape)
        shapes.push_back(
            fmt::format("{} {} instead of {}", piece.name, shape_text(tensor->shape), shape_text(piece.shape)));
      if (!is_floating(tensor->type)) types.push_back(fmt::format("{} {}", piece.name, name_of(tensor->type)));
    }
  }
  for (const auto& [name, tensor] : folder_.tensors())
    if (!used.contains(&tensor) && name != naming_.copy && !naming_.is_ignorable(name)) extra.push_back(name);
  std::string text;
  append_list(text, "missing from it", missing);
  append_list(text, "not in this model", extra);
  append_list(text, "of another shape", shapes);
  append_list(text, "of an element type that is not supported", types);
  if (!types.empty()) text += " (quantized weights are not read: dequantize them with transformers first)";
  if (!text.empty())
    fail("{} holds other weights than the model's: {}{}{}", folder_.path().string(), text,
         naming_.advice.empty() ? "" : ": ", naming_.advice);
  check_copy();
}

void HfWeights::check_copy() const {
  if (naming_.copy.empty()) return;
  const MappedTensor *copy = folder_.find(naming_.copy), *original = find_itself(naming_.original);
  if (!copy || !original) return;
  const auto differ = [&] {
    fail("{}: {} differs from {}, but config.json ties them (tie_word_embeddings is true): set it to false",
         folder_.path().string(), naming_.copy, naming_.original);
  };
  if (copy->shape != original->shape || copy->type != original->type) differ();
  verify(*copy);
  verify(*original);
  if (copy->strides == original->strides) {
    if (copy->bytes.data() != original->bytes.data() && !std::ranges::equal(copy->bytes, original->bytes)) differ();
    return;
  }
  const StridedElements a = elements_of(*copy, false), b = elements_of(*original, false);
  const int64_t columns = whole_box(original->shape).columns;
  std::vector<float> left(static_cast<size_t>(columns)), right(left.size());
  for (Box row{.rows = 1, .columns = columns}; row.row < original->shape[0]; ++row.row) {
    read_elements(a, row, left.data(), columns);
    read_elements(b, row, right.data(), columns);
    if (left != right) differ();
  }
}

void HfWeights::read(const ParameterSpec& spec, const Box& box, std::span<float> out) const {
  const HfParameter* p = parameter(spec.name);
  PARTITA_CHECK(p && p->shape == spec.shape, "{} of {}", spec.name, folder_.path().string());
  check_box(spec, box, out);
  for (const HfPiece& piece : p->pieces) {
    const Box all = box_of(p->shape, piece);
    const std::optional<Box> shared = overlap(box, all);
    if (!shared) continue;
    const MappedTensor* tensor = find(piece.name);
    if (!tensor || tensor->shape != piece.shape)
      fail("{} holds no tensor '{}' of shape {}", folder_.path().string(), piece.name, shape_text(piece.shape));
    verify(*tensor);
    Box theirs = *shared;
    theirs.row -= all.row;
    theirs.column -= all.column;
    read_elements(elements_of(*tensor, piece.transposed), theirs, out.data() + offset_in(box, *shared), box.columns);
  }
}

StoredTypes HfWeights::stored_types() const {
  const auto exported = [](ElementType type) {
    return type == ElementType::f16 || type == ElementType::bf16 ? type : ElementType::f32;
  };
  StoredTypes types;
  std::map<ElementType, int64_t> bytes;
  for (const HfParameter& p : naming_.parameters) {
    for (const HfPiece& piece : p.pieces) {
      const MappedTensor* tensor = find(piece.name);
      if (!tensor) continue;
      types.others[piece.name] = exported(tensor->type);
      bytes[types.others[piece.name]] += std::ssize(tensor->bytes);
    }
  }
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& item) { return item.second; });
  if (most != bytes.end()) types.usual = most->first;
  std::erase_if(types.others, [&](const auto& item) { return item.second == types.usual; });
  return types;
}

std::vector<std::string> HfWeights::rounded() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : folder_.tensors())
    if (tensor.type == ElementType::f64) names.push_back(name);
  return names;
}

}  // namespace partita::internal
