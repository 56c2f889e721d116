// A parameter of a model as a block declares it: its global name and shape, how it begins, and whether it is trained.
// How parameters are cut over ranks is the affair of shard/.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace partita {

struct Init {  // normal(mean, std)
  double mean = 0, std = 0.02;
};

struct ParameterSpec {
  std::string name;            // global, the same in every layout; listed by two blocks: one tied parameter
  std::vector<int64_t> shape;  // global
  Init init;
  bool decay = false;     // weight decay applies
  bool trainable = true;  // false: frozen, without gradient and optimizer states; in units of its own
  bool adapter = false;   // a low-rank adapter: small, so it is in the unit of the vectors

  [[nodiscard]] int64_t count() const {  // elements
    int64_t product = 1;
    for (const int64_t extent : shape) product *= extent;
    return product;
  }
};

// What a block is to its model: embeddings and heads are gathered apart from layers, and may share a table by its name.
enum class BlockKind : uint8_t { embedding, layer, head };

}  // namespace partita
