// Where weights are read from, whatever their format: a Hugging Face folder, a checkpoint of our own. Any box of any
// parameter can be read alone, so that each rank reads what it holds and nobody holds the whole model.
//
//   std::unique_ptr<WeightSource> source = ...;
//   source->check(engine.parameters());                       // all there, nothing left over, by name
//   source->read(parameter, box, out);
#pragma once
#include <cstdint>
#include <span>

#include "partita/base/error.h"
#include "partita/nn/box.h"
#include "partita/nn/parameter.h"

namespace partita {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Error: parameters that are missing, of another shape, or in the source and not in the list; all, by name.
  virtual void check(std::span<const ParameterSpec>) const = 0;
  // out [box.count()] = this box of the parameter, row by row.
  virtual void read(const ParameterSpec&, const Box&, std::span<float> out) const = 0;

 protected:
  // That the box is in the parameter, and `out` of its size.
  static void check_box(const ParameterSpec& spec, const Box& box, std::span<const float> out) {
    PARTITA_CHECK(contains(whole_box(spec.shape), box) && std::ssize(out) == box.count(),
                  "{}: {} rows from {}, {} columns from {}, into {} elements", spec.name, box.rows, box.row,
                  box.columns, box.column, out.size());
  }
};

}  // namespace partita
