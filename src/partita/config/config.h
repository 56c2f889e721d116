// Everything that decides a training run: what a configuration file, its overrides and `--print-config` speak of.
//
//   ConfigSources sources;
//   Config config = load_config("configs/quickstart.toml", {"--parallel.zero_stage=3", "--train.steps=500"}, &sources);
//   validate(config, world.size());
//   write_file(run / "config.toml", to_toml(config));
//
// Keys are `section.name`, named as the members below; `config_help()` lists them with type, default and meaning.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/comm/device.h"
#include "partita/config/schema.h"
#include "partita/data/prompt_dataset.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"
#include "partita/optim/optimizer_options.h"
#include "partita/optim/schedule.h"

namespace partita {

enum class Switch : uint8_t { automatic, on, off };

// tokens: files of `partita tokenize`, all of whose tokens count; prompts: JSON lines, whose completions count.
enum class DataFormat : uint8_t { tokens, prompts };

struct DataConfig {
  DataFormat format = DataFormat::tokens;
  std::filesystem::path path;        // tokens: prefix of PATH.bin and PATH.idx; prompts: the file
  internal::ConfigList blend;        // tokens, in the place of path: weights and prefixes in turn (data/blend.h)
  std::filesystem::path validation;  // likewise; empty: a part of `path`
  std::filesystem::path tokenizer;   // tokenizer.json
  std::string split = "969,30,1";    // weights of training, validation and test documents, or examples
  int64_t seed = 1234;               // of the order of samples
  // Folder that keeps the order; empty: PREFIX_cache beside the token files; "none": none does.
  std::filesystem::path cache;
  // Positions begin anew in each document, and attention stays within it. automatic: of prompts.
  Switch separate_documents = Switch::automatic;
  // Of prompts.
  std::string prompt_key = "prompt", completion_key = "completion";
  bool packing = false;  // several examples a sample
  TooLong too_long = TooLong::error;
  bool allow_special = true;  // text that spells a special token is that token
  bool add_special = true;    // what the tokenizer's file puts in front of a text stands in front of each prompt
  bool verify = false;        // of tokens: PREFIX.bin and PREFIX.idx against their checksums, before the first step
};

// What is not kept from forward to backward, and made again there. selective: norms and activation functions, cheap;
// mlp: also the first product of the MLP; full: all but each block's input.
enum class Recompute : uint8_t { none, selective, mlp, full };

// Products of the layers' linears in 8 bits. current: with scales of the very tensors that are multiplied; delayed: of
// what they were in the steps before, which is faster.
enum class Fp8Recipe : uint8_t { off, current, delayed };
inline constexpr std::array kFp8Recipes = {"off", "current", "delayed"};  // names, in the order of Fp8Recipe
[[nodiscard]] inline const char* name_of(Fp8Recipe recipe) { return kFp8Recipes[static_cast<size_t>(recipe)]; }

struct TrainConfig {
  int64_t steps = 1000;            // optimizer steps of the whole run
  int64_t sequence_length = 1024;  // tokens per sample
  int64_t micro_batch = 4;         // samples per rank in one forward and backward pass
  int64_t global_batch = 32;       // samples per step, over all ranks and micro-batches
  std::string freeze;   // comma-separated patterns of parameters that are not trained: "embedding.*,layers.0.*"
  int64_t seed = 1234;  // of initial weights and dropout
  int64_t threads = 0;  // per rank; 0: as the environment says
  DeviceRequest device = DeviceRequest::automatic;
};

struct PrecisionConfig {
  DType compute = DType::fp32;  // of weights and activations in forward and backward: fp32, bf16 or fp16
  DType states = DType::fp32;   // of master weights and optimizer states; bf16: updates round stochastically
  Fp8Recipe fp8 = Fp8Recipe::off;
  bool fp32_gradients = false;  // of layers also where half precision would do
};

struct MemoryConfig {
  Recompute recompute = Recompute::none;
  int64_t recompute_full_layers = 0;  // the first N layers are recomputed in full, whatever `recompute` says
  bool offload_optimizer = false;     // gradients, master weights and optimizer states in host memory, updated there
  int64_t offload_activations = 0;    // saved activations of the first N layers in host memory
};

struct KernelConfig {
  Switch cuda_graph = Switch::automatic;   // automatic: for one rank with short kernels
  Switch tune_matmul = Switch::automatic;  // automatic: in long runs on a GPU
  std::filesystem::path tuning_file;       // matmul_tuning.json of another run
  bool deterministic = false;              // the same bits in every run, also where that costs time
};

// Of fp16: gradients are made scale times as large. It falls where they overflow and rises after a while without.
struct LossScaleConfig {
  double initial = 65536;
  double lowest = 1;      // an overflow here ends the run
  int64_t window = 2000;  // steps without overflow until it doubles
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 6e-4;  // the highest of the schedule
  double min_learning_rate = 6e-5;
  double weight_decay = 0.1;         // of matrices and embeddings; biases and norms take none
  double beta1 = 0.9, beta2 = 0.95;  // adamw, lamb
  double epsilon = 1e-8;
  double momentum = 0.9;  // sgd
  double clip = 1.0;      // highest global gradient norm; 0: off
};

enum class ScheduleUnit : uint8_t { steps, samples };

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  ScheduleUnit unit = ScheduleUnit::steps;  // of the lengths below
  int64_t warmup = 0;
  int64_t decay = 0;      // length, warmup included; 0: the whole run
  int64_t wsd_decay = 0;  // 0: a tenth of the length
  WsdStyle wsd_style = WsdStyle::exponential;
};

struct ParallelConfig {
  int64_t zero_stage = 0;             // 0: all on every rank; 1: optimizer sharded; 2: gradients too; 3: weights too
  int64_t data = 0;                   // data-parallel ranks; 0: all
  int64_t tensor = 1, pipeline = 1;   // more is not built yet
  int64_t layers_per_collective = 0;  // gathered and reduced together; 0: as many as hold about 30M elements
  int64_t timeout_seconds = 600;      // a collective that takes longer ends the run with the names of who is missing
};

struct EvalConfig {
  int64_t every = 100;   // steps; 0: never
  int64_t batches = 10;  // global batches of validation each time
};

struct CheckpointConfig {
  int64_t every = 1000;         // steps; 0: only at the end
  int64_t keep_last = 2;        // newest checkpoints kept; 0: all
  int64_t keep_every = 0;       // steps whose multiples are kept for good; 0: none
  std::string resume = "auto";  // auto: the newest complete one of the run, never, or a checkpoint's path
  bool on_interrupt = true;     // save when Ctrl-C ends the run
};

struct LogConfig {
  int64_t every = 10;  // steps between log lines
  bool tensorboard = true;
  Switch progress = Switch::automatic;  // automatic: a bar where stderr is a terminal
  int64_t profile_steps = 0;            // so many steps are traced, behind the first five; 0: none
};

struct RunConfig {
  std::filesystem::path directory = "runs/default";
  std::filesystem::path fork;  // new folder: the run in `directory` is unchanged, and another begins at its checkpoint
  bool rewind = false;         // checkpoint.resume may name an older checkpoint of the run itself
};

struct DebugConfig {
  bool poison = false;        // fill released weight slots and fresh gradient buffers with NaN
  int64_t delay_streams = 0;  // microseconds by which streams are late at random, at most; 0: not at all
  bool self_check = true;     // collectives against known answers at start
  bool check_memory = true;   // a run that does not fit into the free memory is not started
};

struct Config {
  ModelConfig model;
  std::filesystem::path from;  // model.from: where weights and shape come from; empty: initial weights
  std::filesystem::path
      base;  // model.base: where the model lies that the adapters in `from` adapt; empty: where they say
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

// The defaults, then the file, then the overrides ("--section.key=value" or "--section.key" "value"). An unknown key
// or value, a wrong type or range is an error that names place, expectation and the nearest valid name. `sources`, if
// given, learns where each value came from. With model.from the defaults of [model] and [lora] are those of that
// model, and a key that would make another function of its weights is an error.
[[nodiscard]] Config load_config(const std::filesystem::path& file, std::span<const std::string> overrides = {},
                                 internal::ConfigSources* sources = nullptr);

// Valid TOML that load_config reads back to the same values; with sources, each line ends in where its value came from.
[[nodiscard]] std::string to_toml(const Config& config, const internal::ConfigSources* sources = nullptr);

// What a run wrote down by to_toml: nothing but the text is read, not the model that model.from names.
[[nodiscard]] Config parse_saved_config(std::string_view text, const std::filesystem::path& path);

// All keys with their values as TOML, in the order of the schema.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> config_values(const Config& config);

// Every key with type, default and meaning.
[[nodiscard]] std::string config_help();
// docs/configuration.md.
[[nodiscard]] std::string config_document();

// What single values cannot show, for a job of `ranks` processes: batch and ranks, lengths, schedule.
void validate(const Config& config, int64_t ranks);
// Those of them that a step on given batches has: model, precision, memory, ranks and batch sizes.
void validate_step(const Config& config, int64_t ranks);

// Micro-batches a rank and step. The config is valid.
[[nodiscard]] int64_t accumulation_steps(const Config& config, int64_t ranks);

// The schedule in its own unit, zeros filled in.
[[nodiscard]] Schedule make_schedule(const Config& config);

// The rate of a step, counted from 1, behind which `consumed_samples` samples are consumed.
[[nodiscard]] double learning_rate(const Config& config, int64_t step, int64_t consumed_samples);

}  // namespace partita
