// The configuration keys with their names, types, ranges and meanings; reading and printing.
#include <utility>
#include <vector>

#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/checkpoint/run_state.h"
#include "partita/config/config.h"
#include "partita/config/config_aliases.h"
#include "partita/config/config_limits.h"
#include "partita/config/config_renames.h"
#include "partita/interop/model_source.h"

namespace partita {
using namespace internal;
namespace {

void bind_model(ConfigSchema& s, ModelConfig& m, std::filesystem::path& from, std::filesystem::path& base) {
  s.section("model", "the shape of the model")
      .field("from", from,
             std::string("what to start from: ") + kModelPaths + "; its shape and adapters are the defaults")
      .field("base", base, "base model of the adapters in model.from; empty: the path stored with them")
      .choice("kind", m.kind,
              "gpt2: layer norm, GELU, learned positions, biases; llama: RMS norm, SwiGLU, rotary positions")
      .field("layers", m.layers, at_least(1), "transformer layers")
      .field("hidden_size", m.hidden_size, at_least(1), "width of the residual stream; a multiple of heads")
      .field("heads", m.heads, at_least(1), "attention heads")
      .field("kv_heads", m.kv_heads, at_least(0),
             "llama: key/value heads, each shared by several queries; 0: as many as heads")
      .field("head_width", m.head_width, at_least(0), "llama: channels per head; 0: hidden_size / heads")
      .field("ffn_hidden_size", m.ffn_hidden_size, at_least(0),
             "inner width of the MLP; 0: 4 x hidden_size (gpt2), or 8/3 x hidden_size rounded up to a multiple of 256 "
             "(llama)")
      .field("vocab_size", m.vocab_size, at_least(0), "size of the vocabulary; 0: that of the tokenizer")
      .field("max_length", m.max_length, at_least(1), "longest sequence, in tokens")
      .choice("tied_head", m.tied_head,
              "share the token embedding with the output head; auto: true for gpt2, false for llama")
      .field("dropout", m.dropout, fraction(),
             "dropout probability of the branches that are added to the residual stream")
      .field("embedding_dropout", m.embedding_dropout, fraction(), "dropout probability of the embedding")
      .field("attention_dropout", m.attention_dropout, fraction(), "dropout probability of attention weights")
      .field("init_std", m.init_std, more_than(0), "standard deviation of initial weights")
      .field("norm_epsilon", m.norm_epsilon, more_than(0), "added to the variance in norms")
      .field("rope_theta", m.rope_theta, more_than(1), "llama: base of the rotary position frequencies")
      .field("rope_factor", m.rope_factor, at_least(1), "llama 3: divisor of the low rotary frequencies; 1: no scaling")
      .field("rope_low_frequency", m.rope_low_frequency, more_than(0),
             "llama 3: frequencies with fewer turns than this within rope_original_length are divided by rope_factor")
      .field("rope_high_frequency", m.rope_high_frequency, more_than(0),
             "llama 3: frequencies with more turns than this are unchanged")
      .field("rope_original_length", m.rope_original_length, at_least(1),
             "llama 3: sequence length of the original training");
}

void bind_lora(ConfigSchema& s, LoraConfig& l) {
  s.section("lora", "low-rank adapters on a frozen model")
      .field("rank", l.rank, at_least(0), "rank of the adapters; 0: no adapters, train the model itself")
      .field("alpha", l.alpha, more_than(0), "the output of adapters is multiplied by alpha / rank")
      .field("dropout", l.dropout, fraction(), "dropout probability of the input of adapters")
      .field(
          "targets", l.targets,
          "linear layers with adapters, comma-separated names of Hugging Face such as q_proj,v_proj; empty: those of "
          "the attention");
}

void bind_data(ConfigSchema& s, DataConfig& d) {
  s.section("data", "training and validation data")
      .choice("format", d.format,
              "tokens: files written by 'partita tokenize'; prompts: JSON lines of prompts and completions; only "
              "completions "
              "carry loss")
      .field("path", d.path, "tokens: prefix of the files PATH.bin and PATH.idx; prompts: the file of JSON lines")
      .field("blend", d.blend,
             "tokens: instead of path, weights and prefixes in turn, [0.7, \"data/a\", 0.3, \"data/b\"]; without "
             "weights each dataset is weighted by its size")
      .field("validation", d.validation, "validation data in the same format; empty: a part of path, chosen by split")
      .field("tokenizer", d.tokenizer,
             "tokenizer that wrote the token files, a file or a folder; empty: that of model.from")
      .field("split", d.split, "weights of the training, validation and test parts, in documents or examples")
      .field("seed", d.seed, between(0, 4294967295), "shuffle seed")
      .field("cache", d.cache,
             "tokens: folder that stores the order of samples, shared by all ranks of a machine; empty: PREFIX_cache "
             "next to "
             "the token files; \"none\": each rank keeps its own in memory")
      .choice("separate_documents", d.separate_documents,
              "reset positions and mask attention at document boundaries; auto: for prompts only")
      .field("prompt_key", d.prompt_key, "prompts: key of the prompt")
      .field("completion_key", d.completion_key, "prompts: key of the completion")
      .field("packing", d.packing,
             "prompts: pack as many examples as fit into a sample (false: one example per sample, padded)")
      .choice("too_long", d.too_long,
              "prompts: examples longer than a sample are an error, lose the end of their completion, or are skipped")
      .field("allow_special", d.allow_special,
             "prompts: read the name of a special token, such as <|im_start|>, as that token; false: as text")
      .field("add_special", d.add_special,
             "prompts: put the tokens that the tokenizer's file puts in front of a text, such as <s>, in front of each "
             "prompt")
      .field("verify", d.verify,
             "tokens: check the token files against their checksums (PREFIX.sums) before the first step");
}

void bind_train(ConfigSchema& s, TrainConfig& t) {
  s.section("train", "the training loop")
      .field("steps", t.steps, at_least(1), "number of optimizer steps")
      .field("sequence_length", t.sequence_length, at_least(1), "tokens per sample; at most model.max_length")
      .field("micro_batch", t.micro_batch, at_least(1),
             "samples per data-parallel rank in one forward and backward pass")
      .field("global_batch", t.global_batch, at_least(1),
             "samples per step: data-parallel ranks x micro_batch x gradient accumulation steps")
      .field("freeze", t.freeze, "parameters that are not trained, comma-separated patterns: embedding.*,layers.0.*")
      .field("seed", t.seed, at_least(0), "seed of initial weights and dropout")
      .field("threads", t.threads, at_least(0),
             "host threads per rank; 0: PARTITA_NUM_THREADS, else OMP_NUM_THREADS (but not the 1 that torchrun sets by "
             "itself), else the cores this process may use, divided by the ranks that share them")
      .choice("device", t.device,
              "device. cuda: one GPU per rank; auto: GPUs if there is one for every rank, else the CPU");
}

void bind_precision(ConfigSchema& s, PrecisionConfig& p) {
  s.section("precision", "number formats")
      .choice("compute", p.compute, {"fp32", "bf16", "fp16"},
              "weights and activations in forward and backward; fp16 uses a loss scale")
      .choice("states", p.states, {"fp32", "bf16"},
              "master weights and optimizer states; bf16: no master weights, and updates round stochastically")
      .choice("fp8", p.fp8,
              "fp8 matmuls in the linears of layers (needs compute bf16); current: scales from the current tensor; "
              "delayed: from the largest value of the last 16 updates")
      .field("fp32_gradients", p.fp32_gradients,
             "true: gradients of layers are fp32 everywhere; false: they have the compute type at ZeRO 2 and 3, and on "
             "one rank "
             "with one micro-batch, where nothing else is added to them");
}

void bind_memory(ConfigSchema& s, MemoryConfig& m) {
  s.section("memory", "less memory for more time: recomputation and offload")
      .choice(
          "recompute", m.recompute,
          "what backward recomputes instead of reading it from memory. selective: norms and activation functions (not "
          "the "
          "attention, as in Megatron-LM); mlp: also the first matmul of the MLP; full: everything except block inputs")
      .field("recompute_full_layers", m.recompute_full_layers, at_least(0),
             "additionally recompute the first N layers in full")
      .field("optimizer", m.optimizer,
             "where gradients, master weights and optimizer states are, and are updated: device; host: in host memory, "
             "by the CPU (GPU only); disk: master weights and optimizer states in a file that is gone with the run, "
             "updated by the CPU; host:0.6 or host:0.3,disk:0.7: fractions, the rest on the device")
      .field("parameters", m.parameters,
             "where the weights in the compute dtype are while they are not in use: device; host (GPU only); disk; or "
             "fractions, as in memory.optimizer. The device has two buffers of a few layers, into which weights are "
             "copied ahead of their use. Of frozen weights, and of weights whose optimizer states are off the device")
      .field("gradients_on_host", m.gradients_on_host,
             "add the gradients of several micro-batches in host memory, of weights whose optimizer states are there "
             "or on disk; false: on the device")
      .field("early_updates", m.early_updates,
             "update weights in host memory as soon as their gradients arrive, during the backward pass; gradients are "
             "then clipped by the gradient norm of the previous step, and a gradient that is not finite ends the run")
      .field("disk_folder", m.disk_folder,
             "folder of the files that memory.optimizer=disk and memory.parameters=disk use, on a fast local disk; "
             "empty: the run's folder")
      .field("offload_activations", m.offload_activations, at_least(0),
             "GPU only: keep saved activations of the first N layers in host memory; two of them at a time are on the "
             "GPU");
}

void bind_kernels(ConfigSchema& s, KernelConfig& k) {
  s.section("kernels", "how kernels are chosen and launched")
      .choice("cuda_graph", k.cuda_graph,
              "GPU only: run forward and backward as one recorded CUDA graph (no data parallelism, pipeline or "
              "offload, ZeRO 0 to 2); auto: if kernels are short")
      .choice("tune_matmul", k.tune_matmul,
              "GPU only: measure the algorithms of matmuls in the first steps and use the fastest; auto: with at least "
              "500 steps "
              "left and without kernels.deterministic")
      .field("tuning_file", k.tuning_file,
             "matmul_tuning.json of another run, whose algorithms are used; empty: those that this run measures")
      .field("deterministic", k.deterministic,
             "bitwise reproducible runs, even where that costs time (attention backward on GPUs)");
}

void bind_optimizer(ConfigSchema& s, OptimizerConfig& o) {
  s.section("optimizer", "optimizer")
      .choice("kind", o.kind, "Adam with decoupled weight decay, SGD with momentum, or LAMB for very large batches")
      .field("learning_rate", o.learning_rate, more_than(0), "peak learning rate")
      .field("min_learning_rate", o.min_learning_rate, at_least(0), "learning rate at the end of the schedule")
      .field("weight_decay", o.weight_decay, at_least(0),
             "weight decay of matrices and embeddings (biases and norms have none)")
      .field("beta1", o.beta1, fraction(), "adamw, lamb: decay of the mean of gradients")
      .field("beta2", o.beta2, fraction(), "adamw, lamb: decay of the mean of squared gradients")
      .field("epsilon", o.epsilon, more_than(0), "adamw, lamb: added to the root of the mean square")
      .field("momentum", o.momentum, fraction(), "sgd: momentum")
      .field("clip", o.clip, at_least(0),
             "largest global gradient norm; larger gradients are scaled down to it; 0: no clipping");
}

void bind_loss_scale(ConfigSchema& s, LossScaleConfig& l) {
  s.section("loss_scale", "loss scale of fp16, which keeps small gradients from vanishing")
      .field("initial", l.initial, at_least(1), "loss scale of the first step")
      .field("lowest", l.lowest, more_than(0), "lowest loss scale; an overflow at this scale ends the run")
      .field("window", l.window, at_least(1), "steps without overflow after which the scale doubles");
}

void bind_schedule(ConfigSchema& s, ScheduleConfig& c) {
  s.section("schedule", "learning rate schedule")
      .choice("kind", c.kind, "curve after the warmup")
      .choice("unit", c.unit, "unit of warmup, decay and wsd_decay")
      .field("warmup", c.warmup, at_least(0), "length of the linear rise to learning_rate")
      .field("decay", c.decay, at_least(0),
             "length of the schedule including warmup, at whose end min_learning_rate is reached; 0: the whole run")
      .field("wsd_decay", c.wsd_decay, at_least(0),
             "length of the decay at the end of warmup-stable-decay; 0: a tenth of the schedule")
      .choice("wsd_style", c.wsd_style, "curve of the decay at the end of warmup-stable-decay");
}

// Of the models of this library: replicate_sum is for modules of users.
std::vector<std::string> division_roles() {
  std::vector<std::string> names(EnumNames<TensorRole>::kNames.begin(), EnumNames<TensorRole>::kNames.end());
  std::erase(names, name_of(TensorRole::replicate_sum));
  return names;
}

void bind_parallel(ConfigSchema& s, ParallelConfig& p) {
  s.section("parallel", "distribution over ranks")
      .field("zero_stage", p.zero_stage, between(0, 3),
             "what is divided over the data- and context-parallel ranks. 0: nothing; 1: optimizer states; 2: also "
             "gradients; 3: "
             "also weights")
      .field("data", p.data, at_least(0),
             "data-parallel ranks; 0: the ranks of the job divided by tensor x context x pipeline")
      .field("tensor", p.tensor, at_least(1),
             "tensor-parallel ranks, which compute each layer together; consecutive ranks, which should be on one "
             "machine")
      .field(
          "context", p.context, at_least(1),
          "context-parallel ranks, which have pieces of the same sequences; train.sequence_length is a multiple of 2 x "
          "context")
      .choice(
          "sequence", p.sequence,
          "with tensor parallelism, also split the rows of norms and dropout, which divides their activation memory; "
          "auto: if the ranks divide the tokens of a micro-batch")
      .field("plan", p.plan, division_roles(),
             "with tensor parallelism: what is replicated instead of divided, as a table from names of parameters, or "
             "of modules that contain them, to roles (* matches anything but a point, ** anything; the first match "
             "counts); by default layer matrices are column and row, tables vocabulary")
      .field("pipeline", p.pipeline, at_least(1),
             "pipeline ranks, each of which computes one or more stages (consecutive layers) for one micro-batch after "
             "the other")
      .choice("schedule", p.schedule,
              "order of a pipeline's forward and backward passes: 1f1b; interleaved, with less waiting and more "
              "messages; gpipe and looped_bfs, which keep the activations of all micro-batches; zb_h1, "
              "interleaved_zero_bubble, zbv and dual_pipe_v, which wait least and delay weight gradients")
      .field("virtual_stages", p.virtual_stages, at_least(0),
             "stages per pipeline rank, a stage being consecutive layers; 0: 1 for gpipe, 1f1b and zb_h1, else 2")
      .field("stages", p.stages,
             "layers of each stage, in order, as in [7, 9]; only the first stage, with the embedding, and the last "
             "one, with "
             "the head, may have 0; empty: such that all take the same time, with the head counted")
      .field("open_weights", p.open_weights, between(-1, 1000000),
             "most micro-batches per rank whose weight gradients are delayed; fewer take less memory and wait more; 0: "
             "none; -1: as many as the schedule delays")
      .field("layers_per_collective", p.layers_per_collective, at_least(0),
             "layers gathered and reduced together; 0: as many as hold about 30 million elements")
      .field(
          "timeout_seconds", p.timeout_seconds, at_least(1),
          "a collective that takes longer than this many seconds ends the run and names the ranks that did not arrive");
}

void bind_rest(ConfigSchema& s, Config& c) {
  s.section("eval", "validation during the run")
      .field("every", c.eval.every, at_least(0), "steps between validations; 0: no validation")
      .field("batches", c.eval.batches, at_least(1), "global batches per validation");
  s.section("checkpoint", "saving and resuming")
      .field("every", c.checkpoint.every, at_least(0), "steps between checkpoints; 0: only at the end")
      .field("keep_last", c.checkpoint.keep_last, at_least(0), "number of newest checkpoints to keep; 0: all")
      .field("keep_every", c.checkpoint.keep_every, at_least(0),
             "also keep checkpoints whose step is a multiple of this; 0: none")
      .field(
          "resume", c.checkpoint.resume,
          "\"auto\": the newest complete checkpoint of the run; \"never\": start at the first step; or the path of a "
          "checkpoint to start at: of the run itself (see run.rewind), or of another run if run.directory is new")
      .field("on_interrupt", c.checkpoint.on_interrupt, "save a checkpoint when Ctrl-C or a signal ends the run")
      .field("interval", c.checkpoint.interval,
             "longest time between checkpoints, such as 90s, 20min or 2h; auto: by the measured time of a save and the "
             "failures to expect, 30min or less unless saves are slow; empty: no limit")
      .field("keep_hours", c.checkpoint.keep_hours, between(0, 1000000),
             "also keep the first checkpoint of each period of so many hours, counted from 1970 UTC; 0: none")
      .choice("background", c.checkpoint.background,
              "copy what is saved into host memory, and write it while training goes on; auto: if the copy takes at "
              "most half of the free memory")
      .field("writers", c.checkpoint.writers, at_least(0),
             "ranks of a machine that write at the same time, when not in the background; 0: all")
      .field("memory_every", c.checkpoint.memory_every, at_least(0),
             "steps between checkpoints in memory, for the restarts of partita launch --restarts; 0: none");
  s.section("log", "output of the run")
      .field("every", c.log.every, at_least(1), "steps between log lines")
      .field("tensorboard", c.log.tensorboard, "write TensorBoard event files into the run directory")
      .choice("progress", c.log.progress, "progress bar; auto: if stderr is a terminal")
      .field("profile_steps", c.log.profile_steps, at_least(0),
             "steps that rank 0 traces, after the first five (and tuning), into profile.json for ui.perfetto.dev and "
             "profile.txt with the time per kernel family; 0: none");
  s.section("run", "output folder")
      .field("directory", c.run.directory, "folder of config.toml, metrics.jsonl, TensorBoard files and checkpoints")
      .field("fork", c.run.fork,
             "new run folder that starts at a checkpoint of run.directory: the newest, or checkpoint.resume; empty: no "
             "fork")
      .field("rewind", c.run.rewind,
             "go back to the older checkpoint of the run named by checkpoint.resume; later ones are moved to a folder");
  s.section("debug", "debugging checks")
      .field("poison", c.debug.poison,
             "fill released weight slots, new gradient buffers and working buffers of memory.optimizer=disk with NaN, "
             "and compare what is read from that disk with checksums of what was written")
      .field(
          "delay_streams", c.debug.delay_streams, between(0, 1000000),
          "delay streams, messages between processes on CPUs, and transfers of memory.optimizer=disk, at random by up "
          "to N microseconds, so that a missing wait changes the loss; 0: no delay")
      .field("self_check", c.debug.self_check,
             "check collectives, and attention on GPUs, against known answers before the run")
      .field("check_messages", c.debug.check_messages,
             "send with each message between pipeline stages which one it is, and end the run if another was expected")
      .field("check_memory", c.debug.check_memory,
             "refuse to start a run that needs more memory than is free; false: if the free memory that the system "
             "reports is wrong");
}

ConfigSchema bind(Config& config) {
  ConfigSchema schema;
  bind_model(schema, config.model, config.from, config.base);
  bind_lora(schema, config.lora);
  bind_data(schema, config.data);
  bind_train(schema, config.train);
  bind_precision(schema, config.precision);
  bind_memory(schema, config.memory);
  bind_kernels(schema, config.kernels);
  bind_optimizer(schema, config.optimizer);
  bind_loss_scale(schema, config.loss_scale);
  bind_schedule(schema, config.schedule);
  bind_parallel(schema, config.parallel);
  bind_rest(schema, config);
  schema.renamed(config_renames()).also_called(config_aliases());
  limit_sizes(schema);
  return schema;
}

}  // namespace

Config load_config(const std::filesystem::path& file, std::span<const std::string> overrides, ConfigSources* sources,
                   const Config& defaults) {
  Config config = defaults;
  const std::string text = file.empty() ? std::string() : read_file(file);
  bool said = false;
  const auto read = [&] {
    ConfigSchema schema = bind(config);
    schema.read_toml(text, file.string(), sources);
    schema.read_overrides(overrides, sources);
    if (!std::exchange(said, true))
      for (const std::string& note : schema.notes()) log::warn("{}", note);
  };
  read();
  if (config.from.empty()) return config;
  // The other model's shape and adapters become the defaults; the explicit settings are applied on top of them.
  const std::filesystem::path from = config.from;
  open_source(config);
  const std::shared_ptr<const ModelSource> source = config.source;
  config = defaults;
  config.source = source;
  config.model = source->model;
  config.lora = source->lora;
  if (sources != nullptr) {
    const ConfigSchema schema = bind(config);
    for (const ConfigField& field : schema.fields())
      if (field.key.starts_with("model.") || (field.key.starts_with("lora.") && source->lora.rank > 0))
        sources->try_emplace(field.key, from.string());
  }
  read();
  check_same_function(source->model, config.model, from);
  return config;
}

void open_source(Config& config) {
  if (!config.from.empty() && config.source == nullptr)
    config.source = std::make_shared<const ModelSource>(open_model(config.from, config.base));
}

std::string to_toml(const Config& config, const ConfigSources* sources) {
  Config copy = config;  // the schema binds to variables
  return bind(copy).to_toml(sources);
}

Config parse_saved_config(std::string_view text, const std::filesystem::path& path) {
  Config config;
  bind(config).read_toml(text, path.string());
  return config;
}

std::vector<std::pair<std::string, std::string>> config_values(const Config& config) {
  Config copy = config;
  std::vector<std::pair<std::string, std::string>> values;
  const ConfigSchema schema = bind(copy);
  for (const ConfigField& field : schema.fields()) values.emplace_back(field.key, field.value());
  return values;
}

std::string config_document() {
  Config defaults;
  return "# Configuration\n\n"
         "All keys of a TOML file for `partita train`, as `partita train --help` lists them. A key is given in the "
         "file, or\n"
         "after it on the command line as `--section.key=value`, which counts more. `partita train CONFIG "
         "--print-config`\n"
         "prints what a run would use, and where each value comes from.\n\n" +
         bind(defaults).markdown();
}

std::string config_help() {
  Config defaults;
  return bind(defaults).help();
}

}  // namespace partita
