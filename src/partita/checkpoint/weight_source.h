// Where weights are read from, whatever their format: a Hugging Face folder, a checkpoint of our own. Any run of any
// parameter can be read alone, so that each rank reads its slices and nobody holds the whole model.
//
//   std::unique_ptr<WeightSource> source = ...;
//   source->check(engine.parameters());                       // all there, nothing left over, by name
//   source->read(parameter, begin, out);
#pragma once
#include <cstdint>
#include <span>

#include "partita/nn/parameter.h"

namespace partita {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Error: parameters that are missing, of another shape, or in the source and not in the list; all, by name.
  virtual void check(std::span<const ParameterSpec>) const = 0;
  // out[i] = element begin + i of the parameter, row-major in its own shape.
  virtual void read(const ParameterSpec&, int64_t begin, std::span<float> out) const = 0;
};

}  // namespace partita
