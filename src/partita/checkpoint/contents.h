// The contents of a checkpoint from the engine's side: named global tensors, and the boxes of them on this rank.
//
//   CheckpointContents state;
//   state.tensors = {{"model/norm.weight", {768}, DType::fp32}, {"adamw.m/norm.weight", {768}, DType::fp32}};
//   const Box half{.rows = 1, .column = 384, .columns = 384};
//   state.pieces = {{0, half, master}, {1, half, m}};                // this rank holds the second half of both
//   state.scalars = {{"step", 100}, {"consumed_samples", 3200}};
//
// `tensors` and `scalars` are equal on all ranks. Names: "model/NAME" for fp32 master weights, "adamw.m/NAME" and
// "adamw.v/NAME" for the moments.
//
// Saving: the pieces of all ranks together hold every element of every tensor exactly once. Replicas (ZeRO-0) each
// contribute an equal share, so that all ranks write. Loading: the pieces are what this rank needs; ranks may request
// the same elements, and need not request all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/nn/box.h"

namespace partita {

// A tensor of the whole model, unpadded and unsharded.
struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::fp32;

  // Number of elements; a shape without dimensions is a scalar: 1.
  [[nodiscard]] int64_t count() const {
    int64_t product = 1;
    for (int64_t size : shape) product *= size;
    return product;
  }
  bool operator==(const TensorInfo&) const = default;
};

// A piece's bytes in memory that the host cannot address, such as a device's. They are copied in parts.
class PieceMemory {
 public:
  virtual ~PieceMemory() = default;
  virtual void read(int64_t offset, std::span<std::byte> out) const = 0;
  virtual void write(int64_t offset, std::span<const std::byte> in) = 0;
};

// A box of tensors[tensor], row by row without gaps, in host memory at `data` or in `elsewhere`. save_checkpoint reads
// it, load_checkpoint writes it.
struct Piece {
  int tensor = 0;
  Box box;
  std::byte* data = nullptr;
  std::shared_ptr<PieceMemory> elsewhere = nullptr;  // used if data is null
  // Does not change while the run goes on, as frozen parameters: later checkpoints may share its file.
  bool constant = false;
};

struct CheckpointContents {
  std::vector<TensorInfo> tensors;
  std::vector<Piece> pieces;
  nlohmann::json scalars = nlohmann::json::object();  // finite numbers, strings, arrays, objects
  std::shared_ptr<const void> owner = nullptr;        // of memory that pieces refer to, if nobody else keeps it
};

}  // namespace partita
