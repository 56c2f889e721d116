// partita bench: speed and memory of training steps on random tokens.
#include "cli/bench_job.h"
#include "cli/commands.h"
#include "cli/options.h"

namespace partita::cli {
using namespace internal;

namespace {

void add_shared_options(CLI::App& command, BenchArguments& a) {
  add_choice(command, "--model", a.model, {"gpt2", "llama"}, "Kind of model");
  add_text(command, "--shape", a.shape, "L,H,W,T,B,V",
           "Layers, heads, width, sequence length, samples per rank, vocabulary size");
  add_number(command, "--kv-heads", a.kv_heads, at_least(0), "llama: key/value heads; 0: as many as heads");
  add_number(command, "--ffn", a.ffn, at_least(0), "Inner width of the MLP; 0: the usual one of the model");
  add_choice(command, "--fp8", a.fp8, {"off", "current", "delayed"},
             "FP8 matrix products in layer linears (needs precision bf16), see precision.fp8");
  add_choice(command, "--states", a.states, {"fp32", "bf16"},
             "Precision of master weights and optimizer states; bf16 needs precision bf16");
  command.add_flag("--deterministic", a.deterministic,
                   "Bitwise reproducible runs, even where that costs time (attention backward on GPUs)");
  command.add_flag("--offload-optimizer", a.offload_optimizer,
                   "GPU only: keep gradients, master weights and optimizer states in host memory and update there");
  add_number(command, "--offload-activations", a.offload_activations, at_least(0),
             "GPU only: keep saved activations of the first N layers in host memory");
  add_choice(command, "--device", a.device, {"cpu", "cuda"}, "Device");
  add_choice(command, "--precision", a.precision, {"fp32", "bf16", "fp16"}, "Compute precision");
  add_number(command, "--zero", a.zero, between(0, 3), "ZeRO stage");
  add_number(command, "--micro-batches", a.micro_batches, at_least(1), "Micro-batches per step and rank");
  add_number(command, "--dropout", a.dropout, between(0, 0.9), "Dropout probability everywhere");
  add_choice(command, "--cuda-graph", a.cuda_graph, {"auto", "true", "false"},
             "Run forward and backward as one recorded CUDA graph, see kernels.cuda_graph");
  command.add_flag("--poison", a.poison, "Fill released memory with NaN, see debug.poison");
  add_number(command, "--delay-streams", a.delay_streams, between(0, 1000000),
             "Delay streams at random by up to N microseconds, see debug.delay_streams");
  add_number(command, "--steps", a.steps, at_least(1), "Timed steps; the median is reported");
  add_number(command, "--warmup", a.warmup, at_least(0), "Steps before the timed ones");
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure the speed and memory of training steps");
  command->require_subcommand(1);
  auto a = std::make_shared<BenchArguments>();

  CLI::App* step = command->add_subcommand("step", "Time training steps on random tokens; prints one line of JSON");
  add_shared_options(*step, *a);
  step->add_flag("--tune", a->tune, "GPU only: first measure the algorithms of matrix products and take the fastest");
  add_text(*step, "--profile", a->profile, "FILE",
           "Trace three more steps into FILE, for ui.perfetto.dev, with a table of the time in FILE.txt");
  add_text(*step, "--tuning-file", a->tuning_file, "FILE",
           "Algorithms chosen earlier, used if the file exists; --tune writes it");
  add_choice(*step, "--recompute", a->recompute, {"none", "selective", "mlp", "full"},
             "What backward recomputes, see memory.recompute");
  add_number(*step, "--recompute-full-layers", a->full_layers, at_least(0),
             "Additionally recompute the first N layers in full");
  step->footer("Example: partita launch -n 2 -- bench step --shape 6,6,384,256,4,4096 --zero 2 --precision bf16");
  step->callback([a] { bench_step(*a); });

  CLI::App* recompute = command->add_subcommand(
      "recompute",
      "Compare the memory that each recomputation level saves with the time it costs (all four models are in memory)");
  add_shared_options(*recompute, *a);
  recompute->add_flag("--json", a->json, "Print lines of JSON instead of a table");
  recompute->footer("Example: partita bench recompute --model llama --kv-heads 2 --shape 6,6,384,256,8,4096");
  recompute->callback([a] { bench_recompute(*a); });
}

}  // namespace partita::cli
