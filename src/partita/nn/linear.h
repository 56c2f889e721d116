// A linear of a layer, y = x W^T (+ bias), with the low-rank adapters that may stand beside it (E. Hu et al., "LoRA:
// low-rank adaptation of large language models", 2021). Each adapts rows [begin, begin + rows) of W, since a linear packs
// several of a layer's matrices (q, k, v; gate, up):
//
//   y[:, begin .. begin + rows) += scale * dropout(x) A^T B^T         A [rank, in], B [rows, rank]
//
// x A^T is kept from forward to backward. A layer lists the parameters and buffers of its linears behind its own:
//
//   LinearPlaces next{.parameter = kParameters, .slot = kSlots, .scratch = kScratch};
//   Linear qkv({.weight = kQkv, .in = width, .parts = {{"attention.qkv", 0, 3 * width}}}, layer, lora, next);
//   qkv.add_parameters(list);
//   qkv.forward(weights, y, x, context, saved);
//   qkv.backward(weights, d_x, d_y, x, context, saved, grads);
#pragma once
#include <string>
#include <vector>

#include "partita/nn/block.h"
#include "partita/ops/dropout.h"

namespace partita {

struct LoraOptions {
  int64_t rank = 0;  // 0: no adapters
  float scale = 1;   // alpha / rank
  float dropout = 0;
  std::vector<std::string> parts;  // that are adapted
};

struct LinearPart {
  const char* name;  // "attention.q": its adapter's parameters are "layers.3.attention.q.lora_a" and ".lora_b"
  int64_t begin, rows;
};

struct LinearSpec {
  int weight;     // places in the layer's parameters
  int bias = -1;  // -1: none, or added by another kernel
  int64_t in;
  std::vector<LinearPart> parts;
};

// The next free places in a layer's lists.
struct LinearPlaces {
  int parameter, slot;
  int scratch;  // of the temporaries that all linears of the layer share
  int adapter = 0;
};

class Linear {
 public:
  Linear(LinearSpec, int64_t layer, const LoraOptions&, LinearPlaces& next);

  [[nodiscard]] int adapters() const { return static_cast<int>(adapters_.size()); }
  void add_parameters(std::vector<ParameterSpec>&) const;
  void add_saved(const Shape&, DType, std::vector<BufferSpec>&) const;

  // y [N, out], x [N, in].
  void forward(Weights, at::Tensor y, at::Tensor x, Context&, Saved&) const;
  // Only what backward reads of the adapters, where y is not needed again.
  void recompute(Weights, at::Tensor x, Context&, Saved&) const;
  // d_x [N, in] is overwritten; it may be x where there are no adapters.
  void backward(Weights, at::Tensor d_x, at::Tensor d_y, at::Tensor x, Context&, Saved&, Grads&) const;

 private:
  struct Adapter {
    LinearPart part;
    int a, b;  // places of the parameters
    int slot;  // of x A^T
    uint32_t site;
  };
  [[nodiscard]] at::Tensor dropped(const Adapter&, at::Tensor x, Context&) const;

  LinearSpec spec_;
  int64_t layer_;
  LoraOptions lora_;
  int scratch_;
  std::vector<Adapter> adapters_;
};

// What the linears of a layer share: nothing without adapters. `widest`: the most input channels of any.
void add_linear_scratch(const LoraOptions&, const Shape&, int64_t widest, DType, std::vector<BufferSpec>&);

}  // namespace partita
