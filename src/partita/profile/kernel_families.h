// Where the time of a training step goes: kernels by family, and the least time that a family needs on the card,
// computed from the model's shape. Pure.
//
//   std::string_view family = kernel_family("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT");     // products, forward
//   const StepWork work = step_work(config, ranks, engine.plan());
//   std::map<std::string_view, double> floors = family_floors(work);                          // seconds a step
#pragma once
#include <cstdint>
#include <map>
#include <string_view>

#include "partita/config/config.h"
#include "partita/models/config.h"
#include "partita/shard/units.h"

namespace partita::internal {

namespace family {
inline constexpr std::string_view kProductsForward = "products, forward", kInputGradients = "products, input gradients",
                                  kWeightGradients = "products, weight gradients", kFp8Products = "products, fp8",
                                  kAttentionForward = "attention, forward", kAttentionBackward = "attention, backward",
                                  kNormForward = "add + norm, forward", kNormBackward = "add + norm, backward",
                                  kActivationForward = "activation, forward",
                                  kActivationBackward = "activation, backward", kRope = "rotary positions",
                                  kBiasGradients = "bias gradients", kCrossEntropy = "cross-entropy",
                                  kEmbedding = "embedding", kDropout = "dropout", kCasts = "casts",
                                  kOptimizer = "optimizer, gradient norm", kCollectives = "collectives",
                                  kCopies = "copies and fills", kOther = "other";
}  // namespace family

// By the name of a kernel: ours, cuBLASLt's, cuDNN's, NCCL's, PyTorch's. Products are told apart by which operands are
// transposed (T N: forward, N N: gradient of the input, N T: of the weight), which their names say; those of fp8 are
// all T N.
[[nodiscard]] std::string_view kernel_family(std::string_view kernel);

// One rank's part of a step.
struct StepWork {
  ModelConfig model;
  int64_t length = 0;         // of a sample
  int64_t tokens = 0;         // of this rank, over its micro-batches
  int64_t updated = 0;        // parameters that this rank updates
  int64_t micro_batches = 1;  // gradients are summed in fp32 where there are several
  DType precision = DType::bf16, states = DType::fp32;
  bool fp8 = false;  // products of the layers' linears
  Recompute recompute = Recompute::none;
  int64_t recompute_full_layers = 0;
  int first_trained = 0;        // block: those below it have no backward; 0 is the embedding, the first layer is 1
  int64_t adapter_weights = 0;  // elements of all adapters
  // Without a gradient: elements of the layers' matrices and adapters; of biases of products; the head's matrix.
  int64_t frozen_weights = 0, frozen_biases = 0;
  bool frozen_head = false;
};

// Of a run's step; model.vocab_size is known. The plan is its engine's: it says what is trained.
[[nodiscard]] StepWork step_work(const Config&, int ranks, const UnitPlan&);

// Seconds a step at the rates of an H100 under its power limit. A family that is not there has no floor: collectives,
// copies, dropout; products and attention in fp32, for which no rate was measured.
[[nodiscard]] std::map<std::string_view, double> family_floors(const StepWork&);

}  // namespace partita::internal
