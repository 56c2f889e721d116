// Small models and batches for engine tests. Their sizes are chosen not to divide evenly.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/engine/engine.h"
#include "partita/engine/engine_memory.h"
#include "partita/models/model.h"
#include "partita/nn/context_parallel.h"

namespace partita::internal::test {

ModelConfig small_model(ModelKind kind, double dropout);

struct EngineCase {
  ModelKind kind = ModelKind::gpt2;
  TiedHead tied_head = TiedHead::automatic;
  LoraConfig lora;
  std::function<bool(const ParameterSpec&)> frozen;
  int stage = 0;
  int samples = 2;  // of a micro-batch
  int micro_batches = 1;
  bool fp32_gradients = false;
  Recompute recompute = Recompute::none;
  int full_recompute_layers = 0;
  DType compute = DType::fp32, states = DType::fp32;
  // Of a model whose sizes allow it; so must the rows of a micro-batch. With `heads`, the sizes of each of up to four
  // tensor-parallel ranks allow it too.
  bool fp8 = false;
  bool delayed_scales = false;
  OptimizerKind optimizer = OptimizerKind::adamw;
  float loss_scale = 1;
  float clip = 0.5F;
  int64_t least_piece = 1;  // TensorSplit
  bool leaves_operands = true;
  int open_weights = -1;  // PipelineStage
  bool poison = false;
  bool check_messages = false;
  Offload offload;
  double dropout = 0.1;
  int layers_per_unit = 1;
  std::vector<Action> actions = {};  // none: one micro-batch after the other
  int64_t heads = 0;                 // 0: those of small_model
  TensorDivision division = {};      // with tensor parallelism
  bool sequence = false;             // with tensor parallelism: the stream is split by rows
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;          // of a pipeline stage
  int64_t length = 13;     // of the samples
  bool documents = false;  // samples have several, which do not attend to each other
  ContextSplit context;    // this rank's place in the context-parallel group
};

// The groups of a rank, as in Zero; null: one rank.
struct ModelGroups {
  Communicator *tensor = nullptr, *key_value = nullptr, *pipeline = nullptr, *ends = nullptr;
  const PipelineEdges* edges = nullptr;
  Communicator* context = nullptr;
};

ModelConfig model_of(const EngineCase& c);

inline bool is_base(const ParameterSpec& p) { return !p.adapter; }

std::unique_ptr<Engine> make_engine(const EngineCase& c, Communicator& self, Communicator& data,
                                    const ModelGroups& groups = {}, Shape shape = {0, 0});

// Samples first .. first + count - 1 of a text that is a function of the sample's number; a quarter of the labels is
// ignored, unevenly.
Batch make_batch(int64_t first, int64_t count);

// This rank's pieces of such samples, which may end earlier, and may have several documents.
Batch make_batch(const EngineCase& c, int64_t first, int64_t count);

// The micro-batches of one rank: micro-batch after micro-batch, in each of them rank after rank.
std::vector<Batch> rank_batches(const EngineCase& c, int64_t step, int rank, int ranks);

std::vector<StepResult> run_steps(Engine& engine, const EngineCase& c, int rank, int ranks, int64_t first,
                                  int64_t last);

}  // namespace partita::internal::test
