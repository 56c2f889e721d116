#include "partita/interop/chunked_weights.h"

#include <algorithm>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/name_list.h"
#include "partita/checkpoint/reshard.h"
#include "partita/interop/hf_names.h"
#include "partita/interop/strided_elements.h"

namespace partita::internal {
namespace {

// The range of rows that a box takes of a parameter, with the elements of a vector as rows.
Box as_rows(const ParameterSpec& spec, const Box& box) {
  if (spec.shape.size() > 1) return box;
  return {.row = box.column, .rows = box.columns, .column = 0, .columns = 1};
}

// Megatron-LM pads a vocabulary to a multiple of 128 times the number of tensor-parallel ranks.
constexpr int64_t kMostPaddedRows = int64_t{1} << 20;

bool fits(const ChunkedTensor& tensor, const ChunkedPiece& piece) {
  if (!piece.padded) return tensor.shape == piece.shape;
  return tensor.shape.size() == piece.shape.size() && tensor.shape[0] >= piece.shape[0] &&
         tensor.shape[0] - piece.shape[0] <= kMostPaddedRows &&
         std::equal(tensor.shape.begin() + 1, tensor.shape.end(), piece.shape.begin() + 1);
}

// Rounded up; `step` is positive, `count` may be negative.
int64_t divide_up(int64_t count, int64_t step) { return count > 0 ? (count + step - 1) / step : -(-count / step); }

struct Range {
  int64_t begin = 0, end = 0;
};
Range overlap(const Range& a, const Range& b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

ElementType exported(ElementType type) {
  return type == ElementType::f16 || type == ElementType::bf16 ? type : ElementType::f32;
}

}  // namespace

ChunkedWeights::ChunkedWeights(std::filesystem::path path, ChunkedTensors tensors, ChunkedNaming naming,
                               std::shared_ptr<const void> files)
    : path_(std::move(path)), files_(std::move(files)), tensors_(std::move(tensors)), naming_(std::move(naming)) {
  for (const ChunkedParameter& p : naming_.parameters) parameters_[p.name] = &p;
}

const ChunkedTensor* ChunkedWeights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return &found->second;
  return !name.empty() && name == naming_.original && !naming_.copy.empty() ? find(naming_.copy) : nullptr;
}

const ChunkedParameter* ChunkedWeights::parameter(std::string_view name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : found->second;
}

void ChunkedWeights::check(std::span<const ParameterSpec> wanted) const {
  std::vector<std::string> missing, extra, shapes, types;
  std::set<const ChunkedTensor*> used;
  for (const ParameterSpec& spec : wanted) {
    const ChunkedParameter* p = parameter(spec.name);
    if (!p) {
      missing.push_back(spec.name);
      continue;
    }
    if (p->shape != spec.shape)
      shapes.push_back(fmt::format("{} {} instead of {}", p->name, shape_text(p->shape), shape_text(spec.shape)));
    for (const ChunkedPiece& piece : p->pieces) {
      const ChunkedTensor* tensor = find(piece.name);
      if (tensor && !used.insert(tensor).second) continue;  // several pieces, or layers, of one tensor
      if (!tensor)
        missing.push_back(piece.name);
      else if (!tensor->type || !is_floating(*tensor->type))
        types.push_back(fmt::format("{} {}", piece.name, tensor->type_name));
      else if (!fits(*tensor, piece))
        shapes.push_back(
            fmt::format("{} {} instead of {}", piece.name, shape_text(tensor->shape), shape_text(piece.shape)));
      else
        check_chunks(piece.name, *tensor);
    }
  }
  for (const auto& [name, tensor] : tensors_)
    if (!used.contains(&tensor) && name != naming_.copy && !naming_.is_ignorable(name)) extra.push_back(name);
  std::ranges::sort(missing);
  missing.erase(std::ranges::unique(missing).begin(), missing.end());
  std::string text;
  append_list(text, "missing from it", missing);
  append_list(text, "not in this model", extra);
  append_list(text, "of another shape", shapes);
  append_list(text, "of an element type that is not supported", types);
  if (!text.empty()) fail("{} holds other weights than the model's: {}", path_.string(), text);
  check_copy();
}

void ChunkedWeights::check_copy() const {
  const auto copy = tensors_.find(naming_.copy), original = tensors_.find(naming_.original);
  if (naming_.copy.empty() || copy == tensors_.end() || original == tensors_.end()) return;
  const auto differ = [&] {
    fail("{}: {} differs from {}, but the model ties them: the checkpoint is of an untied model, or was damaged",
         path_.string(), naming_.copy, naming_.original);
  };
  const ChunkedPiece* piece = piece_of(naming_.original);
  PARTITA_CHECK(piece != nullptr, "no parameter is read from {}", naming_.original);
  // Padded rows, which belong to no token, may differ.
  ChunkedPiece head = *piece;
  head.name = naming_.copy;
  if (!fits(copy->second, head) || copy->second.type != original->second.type) differ();
  check_chunks(naming_.copy, copy->second);
  constexpr int64_t kRows = 256;
  std::vector<float> left, right;
  for (int64_t row = 0; row < piece->rows; row += kRows) {
    const Box box{.row = piece->row + row, .rows = std::min(kRows, piece->rows - row), .columns = piece->shape[1]};
    left.resize(static_cast<size_t>(box.count()));
    right.resize(left.size());
    read_piece(head, box, left.data());
    read_piece(*piece, box, right.data());
    if (left != right) differ();
  }
}

const ChunkedPiece* ChunkedWeights::piece_of(std::string_view tensor) const {
  for (const ChunkedParameter& p : naming_.parameters)
    for (const ChunkedPiece& piece : p.pieces)
      if (piece.name == tensor) return &piece;
  return nullptr;
}

const MappedTensor& ChunkedWeights::open(const TensorChunk& chunk) const {
  if (const auto found = open_.find(&chunk); found != open_.end()) return found->second;
  MappedTensor elements = chunk.open();
  // Nothing bounds the stride of a single row or column: it is never taken.
  for (size_t d = 0; d < elements.shape.size(); ++d)
    if (elements.shape[d] <= 1) elements.strides[d] = 1;
  return open_.emplace(&chunk, std::move(elements)).first->second;
}

void ChunkedWeights::read(const ParameterSpec& spec, const Box& box, std::span<float> out) const {
  const ChunkedParameter* p = parameter(spec.name);
  PARTITA_CHECK(p && p->shape == spec.shape, "{} of {}", spec.name, path_.string());
  check_box(spec, box, out);
  const Box wanted = as_rows(spec, box);
  for (const ChunkedPiece& piece : p->pieces) read_piece(piece, wanted, out.data());
}

// Fills what the piece holds of the box of our parameter at `out`.
void ChunkedWeights::read_piece(const ChunkedPiece& piece, const Box& box, float* out) const {
  const Range wanted = overlap({box.row, box.row + box.rows}, {piece.row, piece.row + piece.rows});
  if (wanted.begin >= wanted.end) return;
  const ChunkedTensor* tensor = find(piece.name);
  if (!tensor || !fits(*tensor, piece))
    fail("{} holds no tensor '{}' of shape {}", path_.string(), piece.name, shape_text(piece.shape));
  const size_t first = piece.layer >= 0 ? 1 : 0;  // the dimension after that of the layers
  const bool vector = tensor->shape.size() == first + 1;
  const size_t row = first + (piece.transposed ? 1 : 0), column = first + (piece.transposed ? 0 : 1);
  for (const TensorChunk& chunk : tensor->chunks) {
    if (first == 1 && (piece.layer < chunk.offsets[0] || piece.layer >= chunk.offsets[0] + chunk.sizes[0])) continue;
    const int64_t begin = chunk.offsets[row] - piece.their_row, end = begin + chunk.sizes[row];
    const Range rows =
        overlap(wanted, {piece.row + divide_up(begin, piece.step), piece.row + divide_up(end, piece.step)});
    const Range held = vector ? Range{0, 1} : Range{chunk.offsets[column], chunk.offsets[column] + chunk.sizes[column]};
    const Range columns = overlap({box.column, box.column + box.columns}, held);
    if (rows.begin >= rows.end || columns.begin >= columns.end) continue;
    const MappedTensor& elements = open(chunk);
    verify(elements);
    StridedElements from{elements.type, elements.bytes.data(), elements.strides[row] * piece.step,
                         vector ? 1 : elements.strides[column]};
    const int64_t their_row = piece.their_row + (rows.begin - piece.row) * piece.step - chunk.offsets[row];
    int64_t start = their_row * elements.strides[row];
    if (first == 1) start += (piece.layer - chunk.offsets[0]) * elements.strides[0];
    from.data += start * size_of(from.type);
    read_elements(
        from,
        {.rows = rows.end - rows.begin, .column = columns.begin - held.begin, .columns = columns.end - columns.begin},
        out + (rows.begin - box.row) * box.columns + columns.begin - box.column, box.columns);
  }
}

StoredTypes ChunkedWeights::stored_types(const ModelConfig& model) const {
  StoredTypes types;
  std::map<ElementType, int64_t> elements;
  for (const HfParameter& theirs : hf_parameters(model)) {
    const ChunkedParameter* p = parameter(theirs.name);
    if (!p) continue;
    for (const HfPiece& hf : theirs.pieces) {
      for (const ChunkedPiece& piece : p->pieces) {
        if (hf.row < piece.row || hf.row >= piece.row + piece.rows) continue;
        const ChunkedTensor* tensor = find(piece.name);
        if (!tensor || !tensor->type) continue;
        types.others[hf.name] = exported(*tensor->type);
        elements[exported(*tensor->type)] += box_of(theirs.shape, hf).count();
      }
    }
  }
  const auto most = std::ranges::max_element(elements, {}, [](const auto& item) { return item.second; });
  if (most != elements.end()) types.usual = most->first;
  std::erase_if(types.others, [&](const auto& item) { return item.second == types.usual; });
  return types;
}

std::vector<std::string> ChunkedWeights::rounded() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_)
    if (tensor.type == ElementType::f64 && !naming_.is_ignorable(name)) names.push_back(name);
  return names;
}

}  // namespace partita::internal
