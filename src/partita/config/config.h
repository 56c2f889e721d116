// Everything that determines a training run: the keys of a configuration file, its overrides and `--print-config`.
//
//   ConfigSources sources;
//   const std::vector<std::string> overrides = {"--parallel.zero_stage=3", "--train.steps=500"};
//   Config config = load_config("configs/quickstart.toml", overrides, &sources);
//   validate(config, world.size());
//   log::print(to_toml(config, &sources));
//
// Keys are `section.name`, named as the members below; `config_help()` lists them with type, default and meaning.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/context_split.h"
#include "partita/base/dtype.h"
#include "partita/base/enum_names.h"
#include "partita/comm/device.h"
#include "partita/config/schema.h"
#include "partita/data/prompt_dataset.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"
#include "partita/models/tensor_division.h"
#include "partita/nn/recompute.h"
#include "partita/nn/split.h"
#include "partita/optim/optimizer_options.h"
#include "partita/optim/schedule.h"
#include "partita/pipeline/shape.h"

namespace partita {

using internal::ConfigSources;

struct ModelSource;  // interop/model_source.h

enum class Switch : uint8_t { automatic, on, off };
template <>
struct EnumNames<Switch> {
  static constexpr std::array kNames = {"auto", "true", "false"};
};

// tokens: files written by `partita tokenize`; every token is trained on. prompts: JSON lines of prompts and
// completions; only completions carry loss.
enum class DataFormat : uint8_t { tokens, prompts };
template <>
struct EnumNames<DataFormat> {
  static constexpr std::array kNames = {"tokens", "prompts"};
};

struct DataConfig {
  DataFormat format = DataFormat::tokens;
  std::filesystem::path path;        // tokens: prefix of PATH.bin and PATH.idx; prompts: the file
  internal::ConfigList blend;        // tokens only, instead of path: alternating weights and prefixes (data/blend.h)
  std::filesystem::path validation;  // same format as `path`; empty: a split of `path`
  std::filesystem::path tokenizer;   // tokenizer.json
  std::string split = "969,30,1";    // weights of training, validation and test documents, or examples
  int64_t seed = 1234;               // shuffle seed
  // Folder for the cached sample order; empty: PREFIX_cache next to the token files; "none": no cache.
  std::filesystem::path cache;
  // Reset positions and mask attention at document boundaries. automatic: for prompts only.
  Switch separate_documents = Switch::automatic;
  // Prompts only.
  std::string prompt_key = "prompt", completion_key = "completion";
  bool packing = false;  // pack several examples into one sample
  TooLong too_long = TooLong::error;
  bool allow_special = true;  // text that spells a special token becomes that token
  bool add_special = true;    // start each prompt with the tokens that the tokenizer prepends to a text
  bool verify = false;  // tokens only: check PREFIX.bin and PREFIX.idx against their checksums before the first step
};

// FP8 matmuls in the layers' linears. current: scales from the tensors being multiplied; delayed: scales from previous
// steps, which is faster.
enum class Fp8Recipe : uint8_t { off, current, delayed };
template <>
struct EnumNames<Fp8Recipe> {
  static constexpr std::array kNames = {"off", "current", "delayed"};
};

struct TrainConfig {
  int64_t steps = 1000;            // optimizer steps of the whole run
  int64_t sequence_length = 1024;  // tokens per sample
  int64_t micro_batch = 4;         // samples per rank in one forward and backward pass
  int64_t global_batch = 32;       // samples per step, over all ranks and micro-batches
  std::string freeze;              // comma-separated patterns of frozen parameters: "embedding.*,layers.0.*"
  int64_t seed = 1234;             // for initial weights and dropout
  int64_t threads = 0;             // per rank; 0: taken from the environment
  DeviceRequest device = DeviceRequest::automatic;
};

struct PrecisionConfig {
  DType compute = DType::fp32;  // weights and activations in forward and backward: fp32, bf16 or fp16
  DType states = DType::fp32;   // master weights and optimizer states; bf16 uses stochastic rounding
  Fp8Recipe fp8 = Fp8Recipe::off;
  bool fp32_gradients = false;  // keep layer gradients in fp32 even where half precision would do
};

struct MemoryConfig {
  Recompute recompute = Recompute::none;
  int64_t recompute_full_layers = 0;  // the first N layers are fully recomputed, whatever `recompute` is
  std::string optimizer = "device";   // where its states are and are updated: optimizer_place.h
  std::string parameters = "device";  // where weights are that are not in use: optimizer_place.h
  bool gradients_on_host = false;     // add gradients of micro-batches there
  bool early_updates = false;         // of the host, under the backward pass
  std::filesystem::path disk_folder;  // of states on disk; empty: the run's folder
  int64_t offload_activations = 0;    // saved activations of the first N layers in host memory
};

struct KernelConfig {
  Switch cuda_graph = Switch::automatic;   // automatic: for short kernels, where it is possible
  Switch tune_matmul = Switch::automatic;  // automatic: in long runs on a GPU
  std::filesystem::path tuning_file;       // matmul_tuning.json of another run
  bool deterministic = false;              // bitwise reproducible, even where that costs time
};

// fp16 loss scaling. The scale drops when gradients overflow and grows after a while without overflow.
struct LossScaleConfig {
  double initial = 65536;
  double lowest = 1;      // an overflow at this scale ends the run
  int64_t window = 2000;  // steps without overflow before the scale doubles
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 6e-4;  // peak of the schedule
  double min_learning_rate = 6e-5;
  double weight_decay = 0.1;         // for matrices and embeddings only, not for biases and norms
  double beta1 = 0.9, beta2 = 0.95;  // adamw, lamb
  double epsilon = 1e-8;
  double momentum = 0.9;  // sgd
  double clip = 1.0;      // maximum global gradient norm; 0: off
};

enum class ScheduleUnit : uint8_t { steps, samples };
template <>
struct EnumNames<ScheduleUnit> {
  static constexpr std::array kNames = {"steps", "samples"};
};

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  ScheduleUnit unit = ScheduleUnit::steps;  // unit of the lengths below
  int64_t warmup = 0;
  int64_t decay = 0;      // length including warmup; 0: the whole run
  int64_t wsd_decay = 0;  // 0: a tenth of the length
  WsdStyle wsd_style = WsdStyle::exponential;
};

struct ParallelConfig {
  int64_t zero_stage = 0;  // 0: nothing sharded; 1: optimizer states; 2: also gradients; 3: also weights
  int64_t data = 0;        // data-parallel ranks; 0: all that tensor, context and pipeline parallelism leave
  int64_t tensor = 1;      // ranks that compute each layer together
  int64_t context = 1;     // ranks that have pieces of the same sequences
  // With tensor: split the rows between the linears, too; automatic: if the ranks divide them.
  Switch sequence = Switch::automatic;
  // With tensor: roles by patterns of parameter names, in place of those of the model (models/tensor_division.h).
  internal::ConfigTable plan;
  int64_t pipeline = 1;  // ranks that each compute a range of layers, for micro-batches in turn
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  // of the pipeline
  int64_t virtual_stages = 0;                                 // ranges of layers per rank; 0: what the schedule needs
  std::vector<std::string> stages;    // layers of each range, numbers; empty: balanced by modeled times
  int64_t open_weights = -1;          // most delayed weight gradients per rank; -1: as the schedule has
  int64_t layers_per_collective = 0;  // gathered and reduced together; 0: as many as hold about 30M elements
  int64_t timeout_seconds = 600;      // a slower collective ends the run and names the missing ranks
};

struct EvalConfig {
  int64_t every = 100;   // steps; 0: never
  int64_t batches = 10;  // global batches per validation
};

struct CheckpointConfig {
  int64_t every = 1000;         // steps; 0: only at the end
  int64_t keep_last = 2;        // newest checkpoints kept; 0: all
  int64_t keep_every = 0;       // checkpoints at multiples of this step are kept forever; 0: none
  std::string resume = "auto";  // auto: the run's newest complete checkpoint; never; or the path of a checkpoint
  bool on_interrupt = true;     // save when Ctrl-C ends the run
  std::string interval;         // longest time between checkpoints: "20min", "auto"; empty: no limit (save_interval.h)
  int64_t keep_hours = 0;       // of each so many hours the first checkpoint is kept forever; 0: none
  Switch background = Switch::automatic;  // automatic: if the copy takes at most half of the free memory
  int64_t writers = 0;                    // ranks of a machine that write at the same time; 0: all
  int64_t memory_every = 0;  // steps between checkpoints in memory, under `partita launch --restarts`; 0: none
};

struct LogConfig {
  int64_t every = 10;  // steps between log lines
  bool tensorboard = true;
  Switch progress = Switch::automatic;  // automatic: a bar where stderr is a terminal
  int64_t profile_steps = 0;            // number of steps to trace, after the first five; 0: none
};

struct RunConfig {
  std::filesystem::path directory = "runs/default";
  std::filesystem::path
      fork;             // new run folder: continue a checkpoint of `directory` there, leaving `directory` unchanged
  bool rewind = false;  // allow checkpoint.resume to name an older checkpoint of this run
};

struct DebugConfig {
  bool poison = false;          // fill released weight slots and fresh gradient buffers with NaN
  int64_t delay_streams = 0;    // maximum random delay of streams and of CPUs' messages, in microseconds; 0: off
  bool self_check = true;       // check collectives against known answers at startup
  bool check_messages = false;  // stamp messages between pipeline stages, and compare the stamps
  bool check_memory = true;     // refuse to start a run that does not fit into free memory
};

struct Config {
  ModelConfig model;
  std::filesystem::path from;  // model.from: source of shape and weights; empty: random initial weights
  std::filesystem::path base;  // model.base: base model of the adapters in `from`; empty: the path stored with them
  std::shared_ptr<const ModelSource> source;  // what `from` names, once opened (open_source); null: none
  LoraConfig lora;
  DataConfig data;
  TrainConfig train;
  PrecisionConfig precision;
  MemoryConfig memory;
  KernelConfig kernels;
  OptimizerConfig optimizer;
  LossScaleConfig loss_scale;
  ScheduleConfig schedule;
  ParallelConfig parallel;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  LogConfig log;
  RunConfig run;
  DebugConfig debug;
};

// Applies the file (none if empty), then the overrides ("--section.key=value" or "--section.key" "value"), to the
// defaults. Errors on an unknown key, wrong type or value out of range; the message gives the location, what was
// expected and the nearest valid name. `sources`, if given, receives where each value came from. With model.from, that
// model is opened; [model] and [lora] default to its values, and overriding a key that changes what its weights compute
// is an error.
[[nodiscard]] Config load_config(const std::filesystem::path& file, std::span<const std::string> overrides = {},
                                 ConfigSources* sources = nullptr, const Config& defaults = {});

// Opens the model that config.from names, unless config.source already is that model.
void open_source(Config& config);

// Valid TOML that load_config reads back to the same values; with sources, each line ends with the origin of its value.
[[nodiscard]] std::string to_toml(const Config& config, const ConfigSources* sources = nullptr);

// Parses a config that a run saved with to_toml. Only the text is read, not the model named by model.from.
[[nodiscard]] Config parse_saved_config(std::string_view text, const std::filesystem::path& path);

// All keys with their values as TOML, in schema order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> config_values(const Config& config);

// Every key with type, default and meaning.
[[nodiscard]] std::string config_help();
// The contents of docs/configuration.md.
[[nodiscard]] std::string config_document();

// Checks across keys for a job of `ranks` processes: batch size against ranks, lengths, schedule. With sources, an
// error in parallel.plan starts with its file and line.
void validate(const Config& config, int64_t ranks, const ConfigSources* sources = nullptr);
// The subset of checks that applies to one step: model, precision, memory, ranks and batch sizes.
void validate_step(const Config& config, int64_t ranks, const ConfigSources* sources = nullptr);

// Data-parallel ranks of a job of `ranks` processes. Requires a valid config.
[[nodiscard]] int64_t data_ranks(const Config& config, int64_t ranks);
// Ranks over which gradients are summed and ZeRO shards: data- and context-parallel ones.
[[nodiscard]] int64_t sharding_ranks(const Config& config, int64_t ranks);
// Tokens of a sample, and of a micro-batch, on a rank.
[[nodiscard]] int64_t tokens_of_sample(const Config& config);
[[nodiscard]] int64_t tokens_of_micro_batch(const Config& config);

// The place of rank `context_rank` of a context-parallel group.
[[nodiscard]] ContextSplit context_split(const Config& config, int64_t context_rank);

// The place of rank `tensor_rank` of a tensor-parallel group, and whether it has sequence parallelism.
[[nodiscard]] TensorSplit tensor_split(const Config& config, int64_t tensor_rank);

// What the tensor-parallel ranks divide. Errors: as divide_model.
[[nodiscard]] TensorDivision tensor_division(const Config& config, const ConfigSources* sources = nullptr);

// Stages per rank of the pipeline, with parallel.virtual_stages 0 replaced.
[[nodiscard]] int64_t pipeline_chunks(const Config& config);
// parallel.stages: layers of each pipeline stage; empty: not given. Errors: not a number; not one per stage; their sum
// is not the model's.
[[nodiscard]] std::vector<int64_t> stage_layers(const Config&);
// Whether weight gradients of the pipeline are computed later than input gradients.
[[nodiscard]] bool delays_weights(const Config&);

// Micro-batches per rank and step. Requires a valid config.
[[nodiscard]] int64_t accumulation_steps(const Config& config, int64_t ranks);

// The schedule in its own unit, with zeros replaced by their defaults.
[[nodiscard]] Schedule make_schedule(const Config& config);

// The learning rate of a step, counted from 1; `consumed_samples` includes that step's own samples.
[[nodiscard]] double learning_rate(const Config& config, int64_t step, int64_t consumed_samples);

}  // namespace partita
