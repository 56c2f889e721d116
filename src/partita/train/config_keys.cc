// The keys of a configuration: names, types, ranges and meanings, and reading and printing by them.
#include <vector>

#include "partita/base/file.h"
#include "partita/train/config.h"
#include "partita/train/model_source.h"
#include "partita/train/run_state.h"

namespace partita {
namespace {

void bind_model(ConfigSchema& s, ModelConfig& m, std::filesystem::path& from, std::filesystem::path& base) {
  s.section("model", "the shape of the model")
      .field(
          "from", from,
          "a Hugging Face or PEFT folder, a run or a checkpoint to begin from; its shape and adapters are the defaults")
      .field("base", base, "where the model lies that adapters in model.from adapt; empty: where they say")
      .choice("kind", m.kind, {"gpt2", "llama"},
              "gpt2: layer norm, GELU, learned positions, biases; llama: RMS norm, SwiGLU, rotary positions")
      .field("layers", m.layers, at_least(1), "transformer layers")
      .field("hidden_size", m.hidden_size, at_least(1), "width of the residual stream; a multiple of heads")
      .field("heads", m.heads, at_least(1), "attention heads")
      .field("kv_heads", m.kv_heads, at_least(0), "llama: key/value heads, which queries share; 0: as many as heads")
      .field("head_width", m.head_width, at_least(0), "llama: channels a head; 0: hidden_size / heads")
      .field("ffn_hidden_size", m.ffn_hidden_size, at_least(0),
             "inner width of the MLP; 0: 4 x hidden_size (gpt2), 8/3 x rounded up to a multiple of 256 (llama)")
      .field("vocab_size", m.vocab_size, at_least(0), "tokens the model knows; 0: as many as the tokenizer")
      .field("max_length", m.max_length, at_least(1), "longest sequence, in tokens")
      .choice("tied_head", m.tied_head, {"auto", "true", "false"},
              "the head uses the token table; auto: gpt2 does, llama does not")
      .field("dropout", m.dropout, fraction(), "probability to drop an element of a branch added to the residual")
      .field("embedding_dropout", m.embedding_dropout, fraction(), "probability to drop an element of the embedding")
      .field("attention_dropout", m.attention_dropout, fraction(), "probability to drop an attention weight")
      .field("init_std", m.init_std, more_than(0), "standard deviation of initial weights")
      .field("norm_epsilon", m.norm_epsilon, more_than(0), "added to the variance in norms")
      .field("rope_theta", m.rope_theta, more_than(1), "llama: base of the rotary frequencies")
      .field("rope_factor", m.rope_factor, at_least(1),
             "llama 3: low rotary frequencies are divided by it; 1: none are")
      .field("rope_low_frequency", m.rope_low_frequency, more_than(0),
             "frequencies of fewer turns within rope_original_length are divided")
      .field("rope_high_frequency", m.rope_high_frequency, more_than(0), "those of more turns stay as they are")
      .field("rope_original_length", m.rope_original_length, at_least(1), "positions the model was first trained with");
}

void bind_lora(ConfigSchema& s, LoraConfig& l) {
  s.section("lora", "low-rank adapters, trained beside a frozen model")
      .field("rank", l.rank, at_least(0), "of the adapters; 0: none, the model itself is trained")
      .field("alpha", l.alpha, more_than(0), "adapters count alpha / rank")
      .field("dropout", l.dropout, fraction(), "probability to drop an element of an adapter's input")
      .field("targets", l.targets,
             "Hugging Face's names of the adapted linears, with commas: q_proj,v_proj; empty: those of the attention");
}

void bind_data(ConfigSchema& s, DataConfig& d) {
  s.section("data", "the text")
      .choice("format", d.format, {"tokens", "prompts"},
              "tokens: files of `partita tokenize`; prompts: JSON lines with prompt and completion, which alone counts")
      .field("path", d.path, "tokens: prefix of the token files PATH.bin and PATH.idx; prompts: the file of JSON lines")
      .field("blend", d.blend,
             "tokens, in the place of path: weights and prefixes in turn, [0.7, \"data/a\", 0.3, \"data/b\"]; without "
             "weights each counts by its size")
      .field("validation", d.validation, "data of the same format for validation; empty: a part of path, by split")
      .field("tokenizer", d.tokenizer, "tokenizer.json that the token files were made with; empty: that of model.from")
      .field("split", d.split, "weights of training, validation and test documents, or examples")
      .field("seed", d.seed, between(0, 4294967295), "seed of the order of samples")
      .field("cache", d.cache,
             "tokens: folder that keeps the order of samples, made once and shared by all ranks of a machine; empty: "
             "PREFIX_cache beside the token files; none: each rank holds its own")
      .choice("separate_documents", d.separate_documents, {"auto", "true", "false"},
              "positions begin anew in each document, and attention stays within it; auto: of prompts")
      .field("prompt_key", d.prompt_key, "prompts: key of the text that is given")
      .field("completion_key", d.completion_key, "prompts: key of the text that is learnt")
      .field("packing", d.packing, "prompts: as many examples in a sample as fit, in place of one and padding")
      .choice("too_long", d.too_long, {"error", "cut", "skip"},
              "prompts: examples longer than a sample are an error, lose the end of the completion, or are left out");
}

void bind_train(ConfigSchema& s, TrainConfig& t) {
  s.section("train", "the run")
      .field("steps", t.steps, at_least(1), "optimizer steps of the whole run")
      .field("sequence_length", t.sequence_length, at_least(1), "tokens a sample; at most model.max_length")
      .field("micro_batch", t.micro_batch, at_least(1), "samples a rank takes through forward and backward at once")
      .field("global_batch", t.global_batch, at_least(1),
             "samples a step over all ranks; a multiple of ranks x micro_batch, the rest is gradient accumulation")
      .choice("precision", t.precision, {"fp32", "bf16", "fp16"}, "of the compute; fp16 scales the loss")
      .choice("states", t.states, {"fp32", "bf16"},
              "of master weights and optimizer states; bf16: no master weights, and updates round stochastically")
      .choice("fp8", t.fp8, kFp8Recipes,
              "products of the layers' linears in 8 bits, beside precision bf16; current: scaled by what they multiply; "
              "delayed: by the largest of the last 16 updates")
      .choice("cuda_graph", t.cuda_graph, {"auto", "true", "false"},
              "forward and backward given to a GPU as one recorded graph, by one rank at ZeRO 0 to 2 without offload; "
              "auto: where "
              "kernels are short")
      .field("fp32_gradients", t.fp32_gradients,
             "gradients of layers in fp32 also where half precision does: at ZeRO 2 and 3, and of one micro-batch on "
             "one rank")
      .choice(
          "recompute", t.recompute, {"none", "selective", "mlp", "full"},
          "what backward makes again instead of keeping it: nothing; norms and activations; these and the MLP's first "
          "product; or all but block inputs")
      .field("recompute_full_layers", t.recompute_full_layers, at_least(0),
             "so many layers, the first, are recomputed in full besides: makes the rest fit")
      .field("offload_optimizer", t.offload_optimizer,
             "of a run on a device: gradients, master weights and optimizer states lie in host memory, and the host "
             "updates")
      .field("offload_activations", t.offload_activations, at_least(0),
             "of a run on a device: what so many layers, the first, keep from forward to backward lies in host memory "
             "meanwhile; more than two for any effect")
      .field("freeze", t.freeze, "parameters that are not trained, patterns with commas: embedding.*,layers.0.*")
      .field("seed", t.seed, at_least(0), "seed of initial weights and dropout")
      .field("threads", t.threads, at_least(0), "threads a rank; 0: as the environment says")
      .choice(
          "tune_matmul", t.tune_matmul, {"auto", "true", "false"},
          "on a GPU: measure the algorithms of matrix products in the first steps and take the fastest; auto: in runs "
          "of some length that need not be repeated bit for bit")
      .field("tuning_file", t.tuning_file,
             "algorithms that another run has chosen: its matmul_tuning.json; empty: the run's own choice")
      .choice("device", t.device, {"auto", "cpu", "cuda"},
              "what computes; cuda: a GPU for each rank of a machine; auto: that where there are enough, else the CPU")
      .field("deterministic", t.deterministic,
             "the same bits in every run also where that costs time: attention's backward on GPUs");
}

void bind_optimizer(ConfigSchema& s, OptimizerConfig& o) {
  s.section("optimizer", "how weights are updated")
      .choice("kind", o.kind, {"adamw", "sgd", "lamb"},
              "Adam with decoupled weight decay, SGD with momentum, or LAMB for very large batches")
      .field("learning_rate", o.learning_rate, more_than(0), "highest learning rate")
      .field("min_learning_rate", o.min_learning_rate, at_least(0), "learning rate at the end of the schedule")
      .field("weight_decay", o.weight_decay, at_least(0), "of matrices and embeddings; biases and norms take none")
      .field("beta1", o.beta1, fraction(), "decay of the mean of gradients")
      .field("beta2", o.beta2, fraction(), "decay of the mean of squared gradients")
      .field("epsilon", o.epsilon, more_than(0), "added to the root of the mean square")
      .field("momentum", o.momentum, fraction(), "of sgd")
      .field("clip", o.clip, at_least(0), "highest global gradient norm; 0: no clipping");
}

void bind_loss_scale(ConfigSchema& s, LossScaleConfig& l) {
  s.section("loss_scale", "of fp16: keeps small gradients from vanishing")
      .field("initial", l.initial, at_least(1), "at the first step")
      .field("lowest", l.lowest, more_than(0), "an overflow at this scale ends the run")
      .field("window", l.window, at_least(1), "steps without overflow until the scale doubles");
}

void bind_schedule(ConfigSchema& s, ScheduleConfig& c) {
  s.section("schedule", "the learning rate over the run")
      .choice("kind", c.kind, {"cosine", "linear", "constant", "inverse-square-root", "warmup-stable-decay"},
              "curve after the warmup")
      .choice("unit", c.unit, {"steps", "samples"}, "what the lengths below count")
      .field("warmup", c.warmup, at_least(0), "length of the linear rise to learning_rate")
      .field("decay", c.decay, at_least(0), "where min_learning_rate is reached, warmup included; 0: at the last step")
      .field("wsd_decay", c.wsd_decay, at_least(0),
             "length of the fall at the end of warmup-stable-decay; 0: a tenth of the whole")
      .choice("wsd_style", c.wsd_style, {"exponential", "linear", "cosine", "one-minus-sqrt"},
              "curve of the fall at the end of warmup-stable-decay");
}

void bind_parallel(ConfigSchema& s, ParallelConfig& p) {
  s.section("parallel", "how ranks share the work")
      .field("zero_stage", p.zero_stage, between(0, 3),
             "0: every rank holds all; 1: optimizer states are sharded; 2: gradients too; 3: weights too")
      .field("data", p.data, at_least(0), "data-parallel ranks; 0: all")
      .field("tensor", p.tensor, at_least(1), "tensor-parallel ranks; only 1 today")
      .field("pipeline", p.pipeline, at_least(1), "pipeline stages; only 1 today")
      .field("blocks_per_unit", p.blocks_per_unit, at_least(0),
             "layers gathered and reduced as one; 0: as many as hold some 30 million elements")
      .field("timeout_seconds", p.timeout_seconds, at_least(1),
             "a collective that takes longer ends the run and names the ranks that did not arrive");
}

void bind_rest(ConfigSchema& s, Config& c) {
  s.section("eval", "validation during the run")
      .field("every", c.eval.every, at_least(0), "steps between validations; 0: never")
      .field("batches", c.eval.batches, at_least(1), "global batches each time");
  s.section("checkpoint", "what is saved and resumed")
      .field("every", c.checkpoint.every, at_least(0), "steps between checkpoints; 0: only at the end")
      .field("keep_last", c.checkpoint.keep_last, at_least(0), "newest checkpoints to keep; 0: all")
      .field("keep_every", c.checkpoint.keep_every, at_least(0),
             "checkpoints of steps that are multiples are kept for good; 0: none")
      .field("resume", c.checkpoint.resume,
             "\"auto\": the newest complete checkpoint of the run; \"never\"; or the path of a checkpoint")
      .field("on_interrupt", c.checkpoint.on_interrupt, "save when Ctrl-C ends the run");
  s.section("log", "what is shown")
      .field("every", c.log.every, at_least(1), "steps between log lines")
      .field("tensorboard", c.log.tensorboard, "write TensorBoard event files into the run directory")
      .choice("progress", c.log.progress, {"auto", "true", "false"}, "progress bar; auto: where stderr is a terminal")
      .field("profile_steps", c.log.profile_steps, at_least(0),
             "steps behind the first five (and tuning) of which rank 0 writes profile.json, a trace for Perfetto, and "
             "profile.txt, the time by kernel family; 0: none");
  s.section("run", "where the run lives")
      .field("directory", c.run.directory, "holds config.toml, metrics.jsonl, TensorBoard events and checkpoints");
  s.section("debug", "checks for the mistrustful")
      .field("poison", c.debug.poison, "fill released weight slots and fresh gradient buffers with NaN")
      .field(
          "delay_streams", c.debug.delay_streams, between(0, 1000000),
          "streams are late at random by at most so many microseconds: a missing wait changes the loss; 0: not at all")
      .field("self_check", c.debug.self_check,
             "check collectives, and attention on GPUs, against known answers at the start");
}

ConfigSchema bind(Config& config) {
  ConfigSchema schema;
  bind_model(schema, config.model, config.from, config.base);
  bind_lora(schema, config.lora);
  bind_data(schema, config.data);
  bind_train(schema, config.train);
  bind_optimizer(schema, config.optimizer);
  bind_loss_scale(schema, config.loss_scale);
  bind_schedule(schema, config.schedule);
  bind_parallel(schema, config.parallel);
  bind_rest(schema, config);
  return schema;
}

}  // namespace

Config load_config(const std::filesystem::path& file, std::span<const std::string> overrides, ConfigSources* sources) {
  Config config;
  const std::string text = read_file(file);
  const auto read = [&] {
    ConfigSchema schema = bind(config);
    schema.read_toml(text, file.string(), sources);
    schema.read_overrides(overrides, sources);
  };
  read();
  if (config.from.empty()) return config;
  // The other model's shape and adapters as defaults, and what was said on top of them.
  const std::filesystem::path from = config.from;
  const ModelSource source = open_model(from, config.base);
  config = Config{};
  config.model = source.model;
  config.lora = source.lora;
  if (sources != nullptr) {
    const ConfigSchema schema = bind(config);
    for (const ConfigField& field : schema.fields())
      if (field.key.starts_with("model.") || (field.key.starts_with("lora.") && source.lora.rank > 0))
        sources->try_emplace(field.key, from.string());
  }
  read();
  check_same_function(source.model, config.model, from);
  return config;
}

std::string to_toml(const Config& config, const ConfigSources* sources) {
  Config copy = config;  // the schema binds to variables
  return bind(copy).to_toml(sources);
}

std::string config_help() {
  Config defaults;
  return bind(defaults).help();
}

}  // namespace partita
