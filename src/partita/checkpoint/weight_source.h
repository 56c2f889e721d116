// Source of weights in any format: a Hugging Face folder, a Partita checkpoint. Any box of any parameter can be read
// separately, so that each rank reads only its shard and none holds the whole model.
//
//   std::unique_ptr<WeightSource> source = ...;
//   source->check(engine.parameters());                       // all present and nothing left over, by name
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
  // Error: parameters that are missing, of another shape, or in the source but not in the list; lists all by name.
  virtual void check(std::span<const ParameterSpec>) const = 0;
  // out [box.count()] = this box of the parameter, row by row.
  virtual void read(const ParameterSpec&, const Box&, std::span<float> out) const = 0;

 protected:
  // Checks that the parameter contains the box and that `out` has its size.
  static void check_box(const ParameterSpec& spec, const Box& box, std::span<const float> out) {
    PARTITA_CHECK(contains(whole_box(spec.shape), box) && std::ssize(out) == box.count(),
                  "{}: {} rows from {}, {} columns from {}, into {} elements", spec.name, box.rows, box.row,
                  box.columns, box.column, out.size());
  }
};

}  // namespace partita
