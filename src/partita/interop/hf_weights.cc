#include "partita/interop/hf_weights.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/name_list.h"
#include "partita/checkpoint/reshard.h"

namespace partita::internal {
namespace {

// A Hugging Face tensor viewed in our row order: element [row, column] is at row * row_stride + column * column_stride.
// A vector is one row.
struct Rows {
  ElementType type;
  const std::byte* data;
  int64_t columns, row_stride, column_stride;

  [[nodiscard]] const std::byte* at(int64_t row, int64_t column) const {
    return data + (row * row_stride + column * column_stride) * size_of(type);
  }
};

Rows rows_of(const HfTensor& tensor, bool transposed) {
  const size_t row = transposed ? 1 : 0, column = 1 - row;
  if (tensor.shape.size() == 1) return {tensor.type, tensor.bytes.data(), tensor.shape[0], 0, tensor.strides[0]};
  return {tensor.type, tensor.bytes.data(), tensor.shape[column], tensor.strides[row], tensor.strides[column]};
}

// Transposed rows: reads column by column in tiles of a few rows, so that source and destination stay in cache.
void read_columns(const Rows& from, const Box& box, float* out) {
  constexpr int64_t kTile = 64;
  std::array<float, kTile> tile{};
  for (int64_t r = 0; r < box.rows; r += kTile) {
    const int64_t count = std::min(kTile, box.rows - r);
    for (int64_t c = 0; c < box.columns; ++c) {
      to_fp32(from.type, from.at(box.row + r, box.column + c), 1, std::span(tile).first(static_cast<size_t>(count)));
      for (int64_t i = 0; i < count; ++i) out[(r + i) * box.columns + c] = tile[static_cast<size_t>(i)];
    }
  }
}

// out = a box of the rows, row by row.
void read_box(const Rows& from, const Box& box, std::span<float> out) {
  const bool whole_rows = box.columns == from.columns;
  if (whole_rows && from.column_stride == 1 && from.row_stride == from.columns)
    return to_fp32(from.type, from.at(box.row, 0), 1, out);
  if (from.row_stride == 1 && from.column_stride != 1 && box.rows > 1) return read_columns(from, box, out.data());
  for (int64_t r = 0; r < box.rows; ++r)
    to_fp32(from.type, from.at(box.row + r, box.column), from.column_stride,
            out.subspan(static_cast<size_t>(r * box.columns), static_cast<size_t>(box.columns)));
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

const HfTensor* HfWeights::find(std::string_view name) const {
  const HfTensor* tensor = find_itself(name);
  return tensor == nullptr && !name.empty() && name == naming_.original ? find_itself(naming_.copy) : tensor;
}

const HfTensor* HfWeights::find_itself(std::string_view name) const {
  if (const HfTensor* tensor = folder_.find(name)) return tensor;
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
  std::set<const HfTensor*> used;
  for (const ParameterSpec& spec : wanted) {
    const HfParameter* p = parameter(spec.name);
    if (!p) {
      missing.push_back(spec.name);
      continue;
    }
    if (p->shape != spec.shape)
      shapes.push_back(fmt::format("{} {} instead of {}", p->name, shape_text(p->shape), shape_text(spec.shape)));
    for (const HfPiece& piece : p->pieces) {
      const HfTensor* tensor = find(piece.name);
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
  const HfTensor *copy = folder_.find(naming_.copy), *original = find_itself(naming_.original);
  if (!copy || !original) return;
  const auto differ = [&] {
    fail("{}: {} differs from {}, but config.json ties them (tie_word_embeddings is true): set it to false",
         folder_.path().string(), naming_.copy, naming_.original);
  };
  if (copy->shape != original->shape || copy->type != original->type) differ();
  HfFolder::check(*copy);
  HfFolder::check(*original);
  if (copy->strides == original->strides) {
    if (copy->bytes.data() != original->bytes.data() && !std::ranges::equal(copy->bytes, original->bytes)) differ();
    return;
  }
  const Rows a = rows_of(*copy, false), b = rows_of(*original, false);
  std::vector<float> left(static_cast<size_t>(a.columns)), right(left.size());
  for (Box row{.rows = 1, .columns = a.columns}; row.row < original->shape[0]; ++row.row) {
    read_box(a, row, left);
    read_box(b, row, right);
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
    const HfTensor* tensor = find(piece.name);
    if (!tensor || tensor->shape != piece.shape)
      fail("{} holds no tensor '{}' of shape {}", folder_.path().string(), piece.name, shape_text(piece.shape));
    HfFolder::check(*tensor);
    Box theirs = *shared;
    theirs.row -= all.row;
    theirs.column -= all.column;
    read_box(rows_of(*tensor, piece.transposed), theirs,
             out.subspan(static_cast<size_t>(offset_in(box, *shared)), static_cast<size_t>(theirs.count())));
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
      const HfTensor* tensor = find(piece.name);
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
