// A model parameter as declared by a block: global name and shape, initialization, whether it is trained, and how it is
// split over ranks that compute a block together (nn/split.h). ZeRO then slices what such a rank holds regardless of
// rows (shard/layout.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/nn/box.h"

namespace partita {

struct Init {  // normal(mean, std)
  double mean = 0, std = 0.02;
};

// none: replicated on every rank. rows: for a vector, its elements.
enum class Split : uint8_t { none, rows, columns };

// Rows of one matrix within a packed one, such as q in qkv. Each part is split separately, into multiples of a quantum
// that stays together: a key/value head and the query heads that read it.
struct ParameterPart {
  const char* name;  // "attention.q"
  int64_t rows;
  int64_t quantum = 1;  // in rows (columns for a column split)
  // With more ranks than quanta, several ranks share a quantum. They divide it into multiples of `inner`, such as one
  // query head; or each holds all of it if `replicated`, as key/value heads are. inner 0: not possible.
  int64_t inner = 0;
  bool replicated = false;
};

// A box of a parameter as one rank of a tensor-parallel group holds it.
struct LocalBox {
  Box box;
  int first_holder = 0, holders = 1;  // consecutive ranks of the group that hold this box
  bool primary = true;                // this rank is the first of them: the one that counts and stores it

  // The gradients of the holders are partial sums: their sum is the gradient of the box.
  [[nodiscard]] bool shared() const { return holders > 1; }
  friend bool operator==(const LocalBox&, const LocalBox&) = default;
};

struct ParameterSpec {
  std::string name;            // global, the same in every layout; listed by two blocks: tied
  std::vector<int64_t> shape;  // global
  Init init;
  bool decay = false;     // weight decay applies
  bool trainable = true;  // false: frozen, without gradient and optimizer states, in separate units
  bool adapter = false;   // low-rank adapter: small, so it shares the unit of the vectors
  Split split = Split::none;
  std::vector<ParameterPart> parts;  // cover all rows, in order; empty: one part
  std::vector<LocalBox> local;       // what this rank holds, one box per part (nn/split.h); empty: everything
  // With pipeline parallelism, a table that the first and the last stage both hold, on different ranks. The first stage
  // counts and stores it.
  enum class Copy : uint8_t { none, first, second } stage_copy = Copy::none;

  [[nodiscard]] int64_t count() const {  // elements
    int64_t product = 1;
    for (const int64_t extent : shape) product *= extent;
    return product;
  }
  // The boxes that this rank holds, stacked by rows: what its blocks compute with.
  [[nodiscard]] std::vector<int64_t> local_shape() const {
    if (local.empty()) return shape;
    int64_t rows = 0, columns = 0;
    for (const LocalBox& l : local) rows += l.box.rows, columns += l.box.columns;
    if (shape.size() < 2) return {columns};
    return {rows, local.front().box.columns};
  }
  [[nodiscard]] int64_t local_count() const {
    int64_t sum = local.empty() ? count() : 0;
    for (const LocalBox& l : local) sum += l.box.count();
    return sum;
  }
  // Whether several ranks hold all of it.
  [[nodiscard]] bool shared() const { return local.size() == 1 && split == Split::none && local.front().shared(); }
};

// Role of a block. Embeddings and heads are gathered separately from layers, and may share a table by name.
enum class BlockKind : uint8_t { embedding, layer, head };

}  // namespace partita
