// A model parameter as declared by a block: global name and shape, initialization, whether it is trained, and how it is
// split over ranks that compute a block together (nn/split.h). ZeRO then slices what such a rank holds regardless of
// rows (shard/layout.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace partita {

struct Init {  // normal(mean, std)
  double mean = 0, std = 0.02;
};

// none: replicated on every rank. rows: for a vector, its elements.
enum class Split : uint8_t { none, rows, columns };

// Rows of one matrix within a packed one, such as q in qkv. Each part is split separately.
struct ParameterPart {
  const char* name;  // "attention.q"
  int64_t rows;
  int64_t quantum = 1;  // smallest unit of a split, in rows (columns for a column split): one head
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

  [[nodiscard]] int64_t count() const {  // elements
    int64_t product = 1;
    for (const int64_t extent : shape) product *= extent;
    return product;
  }
};

// Role of a block. Embeddings and heads are gathered separately from layers, and may share a table by name.
enum class BlockKind : uint8_t { embedding, layer, head };

}  // namespace partita
