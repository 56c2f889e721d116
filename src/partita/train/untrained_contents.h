// What a checkpoint of a user's module holds besides what is trained: the buffers and frozen parameters of all stages
// of a pipeline, as the first data-parallel rank has them.
//
//   const OptimizerContents trained = optimizer_contents(optimizer);
//   UntrainedContents untrained(tensors, trained, mesh);
//   untrained.add_saved(contents);                                       // then save_checkpoint
//   untrained.add_loaded(contents);                                      // then load_checkpoint, take_contents, and
//   untrained.take_loaded();
//
// Names say what is the same tensor in other layouts. What two stages both have is stored once. Frozen parameters that
// ZeRO-3 divides are read and written slice by slice; all else has a copy in host memory on the ranks that store it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "partita/checkpoint/contents.h"
#include "partita/comm/mesh.h"
#include "partita/module/optimizer_contents.h"
#include "partita/module/parameter_group.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

class UntrainedContents {
 public:
  // Collective; the contents of the optimizer and the mesh must outlive this object. Errors, the same on all ranks: a
  // tensor is undefined; two have one name; a divided parameter has a type that checkpoints do not have; ranks with the
  // same stages have other tensors; stages have tensors of one name with other shapes or types.
  UntrainedContents(const Untrained&, const OptimizerContents&, const Mesh&);

  // Of all stages, in the same order on all ranks: "untrained/NAME".
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] int64_t frozen_elements() const { return frozen_elements_; }  // of parameters, of all stages

  // Adds the tensors, and the values that this rank stores. Collective. Error: stages have tensors of one name with
  // other values.
  void add_saved(CheckpointContents&);
  // Adds the tensors, and memory for what this rank has. This object keeps the memory in both cases.
  void add_loaded(CheckpointContents&);
  // Copies what was loaded into the user's tensors.
  void take_loaded() const;

 private:
  struct Part {  // what this rank has of a tensor
    at::Tensor held;
    bool frozen = false;                                // else a buffer
    size_t tensor = 0;                                  // in tensors_
    std::vector<LocalBox> boxes;                        // of which `held` consists, one after the other
    bool stores = false;                                // this rank stores the boxes that are primary
    bool on_several_stages = false;                     // the first of which stores it
    at::Tensor values;                                  // of the boxes, in host memory
    const OptimizerContents::Frozen* slices = nullptr;  // with ZeRO-3, instead of boxes and values
  };
  struct Description;  // of a tensor, as ranks compare them

  std::vector<Description> describe(const Untrained&);
  void find_slices();
  void merge_stages(const std::vector<Description>& own);
  void require_same_values() const;
  void add_to(CheckpointContents&, bool saved) const;

  const OptimizerContents& optimizer_;
  const Mesh& mesh_;
  std::vector<TensorInfo> tensors_;
  std::vector<Part> parts_;
  int64_t frozen_elements_ = 0;
};

}  // namespace partita::internal
