// A parameter of a model as a block declares it: its global name and shape, how it begins, whether it is trained, and
// how it may be divided over ranks that compute a block together (nn/split.h). ZeRO cuts what such a rank holds,
// without regard to rows (shard/layout.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace partita {

struct Init {  // normal(mean, std)
  double mean = 0, std = 0.02;
};

// none: each rank has all of it. rows: of a vector, its elements.
enum class Split : uint8_t { none, rows, columns };

// Rows that a matrix has packed with others: q of qkv. Parts are split each by itself.
struct ParameterPart {
  const char* name;  // "attention.q"
  int64_t rows;
  int64_t quantum = 1;  // rows (or columns, where these are split) that are never cut inside: those of a head
};

struct ParameterSpec {
  std::string name;            // global, the same in every layout; listed by two blocks: one tied parameter
  std::vector<int64_t> shape;  // global
  Init init;
  bool decay = false;     // weight decay applies
  bool trainable = true;  // false: frozen, without gradient and optimizer states; in units of its own
  bool adapter = false;   // a low-rank adapter: small, so it is in the unit of the vectors
  Split split = Split::none;
  std::vector<ParameterPart> parts;  // all of the rows, in their order; empty: one part

  [[nodiscard]] int64_t count() const {  // elements
    int64_t product = 1;
    for (const int64_t extent : shape) product *= extent;
    return product;
  }
};

// What a block is to its model: embeddings and heads are gathered apart from layers, and may share a table by its name.
enum class BlockKind : uint8_t { embedding, layer, head };

}  // namespace partita
