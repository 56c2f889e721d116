// The ranks of the job as a grid of data, context, tensor and pipeline parallelism.
//
//   Mesh mesh(world, select_device(DeviceRequest::automatic, world));     // all ranks are data parallel
//   mesh.data().all_reduce(partial, Reduce::sum, stream).wait();
#pragma once
#include <c10/core/Device.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "partita/comm/pipeline_edges.h"
#include "partita/comm/world.h"

namespace partita {

// Pure. Tensor varies fastest, then context, data and pipeline, so that tensor-parallel neighbors, which communicate
// most, share a host. rank = ((pipeline * data_size + data) * context_size + context) * tensor_size + tensor.
class MeshLayout {
 public:
  struct Sizes {
    int data = 1, tensor = 1, pipeline = 1, context = 1;
    // Of the model: with more tensor-parallel ranks than these, several hold the same one. 0: at least as many.
    int kv_heads = 0;
  };
  struct Position {
    int data = 0, tensor = 0, pipeline = 0, context = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };

  // Error: the product of the sizes is not the number of ranks; names the sizes.
  MeshLayout(Sizes sizes, int ranks);

  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] int ranks() const { return sizes_.data * sizes_.tensor * sizes_.pipeline * sizes_.context; }
  [[nodiscard]] Position position(int rank) const;
  [[nodiscard]] int rank(Position) const;
  // The ranks that differ from `rank` in this coordinate only, ascending.
  [[nodiscard]] std::vector<int> data_group(int rank) const;
  [[nodiscard]] std::vector<int> context_group(int rank) const;
  // The ranks that differ in data and context only, ascending: they have the same part of the model.
  [[nodiscard]] std::vector<int> data_context_group(int rank) const;
  [[nodiscard]] std::vector<int> tensor_group(int rank) const;
  [[nodiscard]] std::vector<int> pipeline_group(int rank) const;
  // The first and the last rank of the pipeline group of `rank`, if it is one of them; else itself.
  [[nodiscard]] std::vector<int> ends_group(int rank) const;
  // The ranks of the tensor group that hold the same key/value heads as `rank` (nn/split.h).
  [[nodiscard]] std::vector<int> key_value_group(int rank) const;

 private:
  [[nodiscard]] std::vector<int> along(int rank, int size, int Position::*coordinate) const;
  Sizes sizes_;
};

// This rank's communicators. Every rank constructs the same meshes in the same order; the World must outlive them.
class Mesh {
 public:
  // `device`: of the tensors of all groups but world(), which uses host tensors. Errors: those of MeshLayout and
  // on_device.
  Mesh(World& world, MeshLayout::Sizes sizes, c10::Device device = c10::kCPU,
       std::chrono::milliseconds timeout = std::chrono::minutes(10));
  // All ranks are data parallel.
  explicit Mesh(World& world, c10::Device device = c10::kCPU);
  // Of this rank alone.
  [[nodiscard]] static Mesh alone(World& world, c10::Device device = c10::kCPU);

  [[nodiscard]] const MeshLayout& layout() const { return layout_; }
  [[nodiscard]] MeshLayout::Position position() const { return layout_.position(world_->rank()); }

  [[nodiscard]] c10::Device device() const { return device_; }

  [[nodiscard]] Communicator& data() const { return data_ ? *data_ : *self_; }           // "dp": other samples
  [[nodiscard]] Communicator& context() const { return context_ ? *context_ : *self_; }  // "cp": the same samples
  // "dpcp", or data() without context parallelism: over which gradients, losses and token counts are summed, and ZeRO
  // shards.
  [[nodiscard]] Communicator& data_context() const { return data_context_ ? *data_context_ : data(); }
  [[nodiscard]] Communicator& tensor() const { return tensor_ ? *tensor_ : *self_; }           // "tp"
  [[nodiscard]] Communicator& pipeline() const { return pipeline_ ? *pipeline_ : *self_; }     // "pp"
  [[nodiscard]] Communicator& key_value() const { return key_value_ ? *key_value_ : *self_; }  // "kv"
  [[nodiscard]] Communicator& ends() const { return ends_ ? *ends_ : *self_; }                 // "ends"
  // The edges between neighboring stages; null: no pipeline.
  [[nodiscard]] const PipelineEdges* edges() const { return edges_.get(); }
  [[nodiscard]] Communicator& self() const { return *self_; }  // this rank alone
  [[nodiscard]] Communicator& world() const { return *world_; }

 private:
  Mesh(MeshLayout layout, c10::Device device) : layout_(layout), device_(device) {}

  MeshLayout layout_;
  c10::Device device_;
  std::unique_ptr<Communicator> world_, self_;
  std::unique_ptr<Communicator> data_, context_, tensor_, pipeline_, key_value_, ends_;  // null: of this rank alone
  std::unique_ptr<Communicator> data_context_;                                           // null: data_
  std::unique_ptr<PipelineEdges> edges_;
};

}  // namespace partita
