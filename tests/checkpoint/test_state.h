// A small model with awkward shapes, sharded randomly over ranks, for checkpoint tests.
#pragma once
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/contents.h"
#include "partita/checkpoint/elements.h"
#include "tests/support/boxes.h"

namespace partita::internal::test {

// No elements, one, a scalar, sizes that nothing divides, every dtype.
inline std::vector<TensorInfo> odd_tensors() {
  return {{"model/embedding.token.weight", {61, 7}, DType::fp32},
          {"model/final_norm.bias", {7}, DType::fp32},
          {"adamw.m/final_norm.bias", {7}, DType::fp32},
          {"model/scale", {}, DType::bf16},
          {"model/none", {3, 0}, DType::fp32},
          {"model/one", {1, 1, 1}, DType::fp16},
          {"counts", {1031}, DType::int64},
          {"ids", {13, 5}, DType::int32},
          {"mask", {257}, DType::uint8}};
}

// The whole of every tensor; random bytes, so that each NaN must come back in its bits, or those given.
class GlobalValues {
 public:
  GlobalValues(std::vector<TensorInfo> tensors, uint32_t seed) : tensors_(std::move(tensors)) {
    std::mt19937 random(seed);
    for (const TensorInfo& tensor : tensors_) {
      std::vector<std::byte> bytes(static_cast<size_t>(tensor.count() * size_of(tensor.dtype)));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      values_.push_back(std::move(bytes));
    }
  }
  GlobalValues(std::vector<TensorInfo> tensors, std::vector<std::vector<std::byte>> values)
      : tensors_(std::move(tensors)), values_(std::move(values)) {}
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Row by row.
  [[nodiscard]] std::vector<std::byte> box(int tensor, const Box& box) const {
    const auto t = static_cast<size_t>(tensor);
    const int64_t item = size_of(tensors_[t].dtype), columns = whole_box(tensors_[t].shape).columns;
    std::vector<std::byte> bytes;
    for (int64_t row = box.row; row < box.row + box.rows; ++row)
      std::ranges::copy_n(values_[t].begin() + (row * columns + box.column) * item, box.columns * item,
                          std::back_inserter(bytes));
    return bytes;
  }

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<std::byte>> values_;
};

// The same values in other dtypes, of the same tensors.
inline GlobalValues converted(const GlobalValues& values, const std::vector<TensorInfo>& tensors) {
  std::vector<std::vector<std::byte>> bytes;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto from = values.box(static_cast<int>(t), whole_box(tensors[t].shape));
    bytes.emplace_back(static_cast<size_t>(tensors[t].count() * size_of(tensors[t].dtype)));
    convert_elements(values.tensors()[t].dtype, from, tensors[t].dtype, bytes.back().data());
  }
  return {tensors, std::move(bytes)};
}

// Boxes of tensors, each with its memory.
struct RankMemory {
  CheckpointContents state;
  std::vector<std::vector<std::byte>> memory;

  RankMemory() = default;
  RankMemory(RankMemory&&) = default;  // no copies: the pieces point into this memory
  RankMemory& operator=(RankMemory&&) = default;

  void add(int tensor, const Box& box, std::byte fill = std::byte{0xA5}) {
    const int64_t item = size_of(state.tensors[static_cast<size_t>(tensor)].dtype);
    memory.emplace_back(static_cast<size_t>(box.count() * item), fill);
    state.pieces.push_back({tensor, box, memory.back().data()});
  }
  void fill(const GlobalValues& values) {
    for (size_t i = 0; i < memory.size(); ++i) {
      const Piece& piece = state.pieces[i];
      std::ranges::copy(values.box(piece.tensor, piece.box), memory[i].begin());
    }
  }
  [[nodiscard]] bool holds(const GlobalValues& values) const {
    for (size_t i = 0; i < memory.size(); ++i) {
      const Piece& piece = state.pieces[i];
      if (values.box(piece.tensor, piece.box) != memory[i]) return false;
    }
    return true;
  }
  [[nodiscard]] bool untouched(std::byte fill = std::byte{0xA5}) const {
    return std::ranges::all_of(memory, [&](const auto& bytes) {
      return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == fill; });
    });
  }
};

// Every element on one rank each, in random boxes and random order; some boxes are empty.
inline std::vector<RankMemory> random_layout(const std::vector<TensorInfo>& tensors, int ranks, uint32_t seed,
                                             Cut cut = Cut::mixed) {
  std::mt19937 random(seed);
  std::vector<RankMemory> layout(static_cast<size_t>(ranks));
  for (RankMemory& rank : layout) rank.state.tensors = tensors;
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t)
    for (const Box& box : random_tiling(random, whole_box(tensors[static_cast<size_t>(t)].shape), cut))
      layout[random() % layout.size()].add(t, box);
  return layout;
}

// Everything on one rank.
inline RankMemory whole_layout(const std::vector<TensorInfo>& tensors) {
  RankMemory rank;
  rank.state.tensors = tensors;
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t)
    rank.add(t, whole_box(tensors[static_cast<size_t>(t)].shape));
  return rank;
}

// Changes one byte of a file in place.
inline void flip_byte(const std::filesystem::path& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const int byte = file.get();
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 0x10));
  if (!file) fail("cannot change {}", path.string());
}

// Every file under a folder with its content: to see that nothing changed.
inline std::map<std::string, std::string> snapshot(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
  return files;
}

}  // namespace partita::internal::test
