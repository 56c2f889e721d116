// Classifies the GPU kernels of a training step by family, and computes a lower bound ("floor") for the time of each
// family from the model's shape. Pure.
//
//   std::string_view family = kernel_family("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT");     // matmuls, forward
//   const StepWork work = step_work(config, ranks, engine.plan());
//   std::map<std::string_view, FamilyWork> amounts = family_work(work);                       // FLOPs, bytes
//   std::map<std::string_view, double> floors = family_floors(work);                          // seconds per step
#pragma once
#include <cstdint>
#include <map>
#include <string_view>

#include "partita/config/config.h"
#include "partita/models/config.h"
#include "partita/shard/units.h"

namespace partita::internal {

namespace family {
inline constexpr std::string_view kProductsForward = "matmul, forward", kInputGradients = "matmul, input gradients",
                                  kWeightGradients = "matmul, weight gradients", kFp8Products = "matmul, fp8",
                                  kAttentionForward = "attention, forward", kAttentionBackward = "attention, backward",
                                  kNormForward = "add + norm, forward", kNormBackward = "add + norm, backward",
                                  kActivationForward = "activation, forward",
                                  kActivationBackward = "activation, backward", kRope = "rotary positions",
                                  kBiasGradients = "bias gradients", kCrossEntropy = "cross-entropy",
                                  kEmbedding = "embedding", kDropout = "dropout", kCasts = "casts",
                                  kOptimizer = "optimizer, gradient norm", kCollectives = "collectives",
                                  kCopies = "copies and fills", kOther = "other";
}  // namespace family

// Decides by the kernel's name: ours, cuBLASLt's, cuDNN's, NCCL's, PyTorch's. Matmuls are told apart by their
// transposed operands, which are part of the name (TN: forward, NN: input gradient, NT: weight gradient); fp8 matmuls
// are all TN.
[[nodiscard]] std::string_view kernel_family(std::string_view kernel);

// One rank's work in a step.
struct StepWork {
  ModelConfig model;
  int64_t length = 0;         // sequence length
  int64_t tokens = 0;         // on this rank, over all its micro-batches
  int64_t updated = 0;        // parameters this rank updates
  int64_t micro_batches = 1;  // with more than one, gradients are accumulated in fp32
  DType precision = DType::bf16, states = DType::fp32;
  bool fp8 = false;  // layer linears use fp8 matmuls
  Recompute recompute = Recompute::none;
  int64_t recompute_full_layers = 0;
  int first_trained = 0;               // index of this rank's first block with a backward pass
  int64_t layers = -1;                 // on this rank, of which the first recompute_full_layers are recomputed; -1: all
  bool embedding = true, head = true;  // on this rank
  int64_t tensor = 1;                  // tensor-parallel ranks, which divide matmuls, attention and vocabulary
  bool sequence = false;               // they divide norms, too
  TensorDivision division = {};        // what they replicate instead; of this rank's layers
  int64_t adapter_weights = 0;         // elements of all adapters
  // Frozen elements: of layer matrices and adapters; of biases; whether the head's matrix is frozen.
  int64_t frozen_weights = 0, frozen_biases = 0;
  bool frozen_head = false;
};

// The work of a run's step; model.vocab_size must be known. The engine's plan tells what is trained.
[[nodiscard]] StepWork step_work(const Config&, int ranks, const UnitPlan&);

// What a family does in a step: FLOPs, or bytes that it reads and writes.
struct FamilyWork {
  double flops = 0;
  double bytes = 0;
  double speed = 1;  // of its FLOPs, relative to bf16 matmuls on a GPU
};
// Families that are not counted are absent: collectives, copies, dropout.
[[nodiscard]] std::map<std::string_view, FamilyWork> family_work(const StepWork&);

// Rates reached by a 700 W H100 SXM inside a training step, where its clock drops to about 1.5 GHz.
inline constexpr double kMatmulRate = 700e12;  // FLOP/s of bf16 matmuls in cuBLASLt: 600-790e12, depending on shape
inline constexpr double kDeviceMemoryRate = 3.0e12;  // bytes/s, reads and writes: the best copy reaches 3.02e12

// Seconds per step at these rates. Families that are not counted are absent; also fp32 matmuls and attention, for which
// no rate was measured.
[[nodiscard]] std::map<std::string_view, double> family_floors(const StepWork&);

}  // namespace partita::internal
