// Builds the engine for a model, or for the configuration of a run.
//
//   auto engine = make_engine(gpt2_small(), mesh, /*zero_stage=*/3,
//                             {.shape = {.samples = 8, .length = 1024}, .compute = DType::bf16});
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "partita/comm/mesh.h"
#include "partita/config/config.h"
#include "partita/engine/engine.h"
#include "partita/interop/model_source.h"

namespace partita {

struct ModelBuild {
  LoraConfig lora;         // rank 0: no adapters; otherwise only these are trained, and load_weights reads the base
  bool fp8 = false;        // matmuls of the layers' linears in fp8; compute must be bf16
  DivisionPlan plan = {};  // what tensor-parallel ranks divide; empty: all
};

// An engine that trains the model with initial weights of options.seed, or infers where options.training is false, at
// ZeRO stage 0 to 3 over mesh.data_context(). It computes on mesh.device(); options.device and options.width are taken
// from the mesh and the model. The mesh outlives the engine; all ranks call it together. Errors: those of
// validate(ModelConfig), make_zero and Engine; a mesh with pipeline parallelism, which is not built.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const ModelConfig&, const Mesh&, int zero_stage, EngineOptions,
                                                  const ModelBuild& = {});
std::unique_ptr<Engine> make_engine(const ModelConfig&, const Mesh&&, int, EngineOptions,
                                    const ModelBuild& = {}) = delete;  // the mesh must outlive the engine

// Parameters of one middle layer, including its adapters.
[[nodiscard]] int64_t parameters_per_layer(const Config&);

// Whether forward and backward are recorded as a graph (device/graph_runner.h). Pure. Error: kernels.cuda_graph
// requests it where it is not possible.
[[nodiscard]] bool records_steps(const Config&, int64_t parameters_per_layer, int64_t ranks, bool on_gpu);

// Options and blocks of a training run's engine, of this rank's place in the mesh. Pure. Errors: as records_steps.
[[nodiscard]] EngineOptions training_options(const Config&, int64_t ranks, at::Device, MeshLayout::Position = {});
[[nodiscard]] std::vector<std::unique_ptr<Block>> training_blocks(const Config&, at::Device, MeshLayout::Position = {});
// Where blocks that are only planned with have their constants: on the CPU, if that is the device, else nowhere. So a
// plan for GPUs takes neither a GPU nor its memory.
[[nodiscard]] at::Device planning_device(at::Device);
// The same for evaluation and generation.
[[nodiscard]] EngineOptions inference_options(const ModelConfig&, DType compute, Shape, at::Device);

// The sizes of a run's mesh. Pure.
[[nodiscard]] MeshLayout::Sizes mesh_sizes(const Config&, int64_t ranks);

// The engine of a training run on this rank; weights are not set yet. Errors: train.freeze matches nothing; offload on
// the CPU; sizes that fp8 matmuls do not support; as records_steps.
[[nodiscard]] std::unique_ptr<Engine> build_training_engine(const Config&, const Mesh&);

// An engine that computes losses and logits for batches of `shape`. It allocates memory for the weights and one block's
// activations, none for training.
[[nodiscard]] std::unique_ptr<Engine> build_inference_engine(const ModelConfig&, const LoraConfig&, DType compute,
                                                             Shape, const Mesh&, int zero_stage = 0);

// Loads the engine's weights from the source; adapters that the source lacks are initialized from `seed`. Errors: as
// WeightSource::check.
void load_weights(Engine&, const ModelSource&, uint64_t seed);

// Fills in what the tokenizer determines: data.tokenizer, if empty and model.from has one; model.vocab_size, if 0.
// Error: the tokenizer has more tokens than the model.
void complete_model(Config&);

// Error: precision.fp8 with sizes that fp8 matmuls do not take. Requires a valid config.
void check_fp8_sizes(const Config&);
// Error: offload from a CPU into its own memory.
void check_offload(const Config&, at::Device);
// Where states on disk are.
[[nodiscard]] std::filesystem::path disk_folder(const Config&);

}  // namespace partita
