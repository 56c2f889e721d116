// partita bench: the speed and memory of training steps, on random tokens.
#include "cli/bench_job.h"
#include "cli/commands.h"

namespace {

void add_shared_options(CLI::App& command, BenchArguments& a) {
  command.add_option("--model", a.model, "kind")->capture_default_str()->check(CLI::IsMember({"gpt2", "llama"}));
  command.add_option("--shape", a.shape, "layers,heads,width,length,batch a rank,vocabulary")->capture_default_str();
  command.add_option("--kv-heads", a.kv_heads, "of llama; 0: as many as heads")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_option("--ffn", a.ffn, "inner width of the MLP; 0: the usual one of the kind")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_option("--fp8", a.fp8, "as train.fp8: products of the layers' linears in 8 bits, beside precision bf16")
      ->capture_default_str()
      ->check(CLI::IsMember(std::vector<std::string>(partita::kFp8Recipes.begin(), partita::kFp8Recipes.end())));
  command.add_option("--states", a.states, "of master weights and optimizer states: fp32, or bf16 with precision bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16"}));
  command.add_flag("--deterministic", a.deterministic,
                   "the same bits in every run also where that costs time: attention's backward on cuda");
  command.add_flag("--offload-optimizer", a.offload_optimizer,
                   "gradients, master weights and optimizer states in host memory, and the host updates; on cuda");
  command
      .add_option("--offload-activations", a.offload_activations,
                  "so many layers, the first, keep what backward reads in host memory; on cuda")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_option("--device", a.device, "cpu or cuda")->capture_default_str()->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--precision", a.precision, "of the compute")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command.add_option("--zero", a.zero, "ZeRO stage")->capture_default_str()->check(CLI::Range(0, 3));
  command.add_option("--micro-batches", a.micro_batches, "gradient accumulation")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--dropout", a.dropout, "everywhere")->capture_default_str()->check(CLI::Range(0.0, 0.9));
  command.add_option("--cuda-graph", a.cuda_graph, "as train.cuda_graph: forward and backward as one recorded graph")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "true", "false"}));
  command.add_flag("--poison", a.poison, "as debug.poison: fill what is released with NaN");
  command.add_option("--delay-streams", a.delay_streams, "as debug.delay_streams: late at random, microseconds")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command.add_option("--steps", a.steps, "timed; the median is reported")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--warmup", a.warmup, "steps before")->capture_default_str()->check(CLI::NonNegativeNumber);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measures speed and memory");
  command->require_subcommand(1);
  auto a = std::make_shared<BenchArguments>();

  CLI::App* step = command->add_subcommand("step", "Times a training step on random tokens; prints a line of JSON");
  add_shared_options(*step, *a);
  step->add_flag("--tune", a->tune,
                 "on cuda: measure the algorithms of matrix products in steps before, and take the fastest");
  step->add_option("--profile", a->profile,
                   "trace three more steps into this file, for ui.perfetto.dev, with a table of the time in FILE.txt");
  step->add_option("--tuning-file", a->tuning_file, "algorithms chosen before, taken if it is there; --tune writes it");
  step->add_option("--recompute", a->recompute, "what backward makes again")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "selective", "mlp", "full"}));
  step->add_option("--recompute-full-layers", a->full_layers,
                   "so many layers, the first, in full whatever --recompute says")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  step->footer("Example: partita launch -n 2 -- bench step --shape 6,6,384,256,4,4096 --zero 2 --precision bf16");
  step->callback([a] { bench_step(*a); });

  CLI::App* recompute = command->add_subcommand(
      "recompute", "Shows what each way of recomputation saves in memory and costs in time; all four are held at once");
  add_shared_options(*recompute, *a);
  recompute->add_flag("--json", a->json, "lines of JSON instead of a table");
  recompute->footer("Example: partita bench recompute --model llama --kv-heads 2 --shape 6,6,384,256,8,4096");
  recompute->callback([a] { bench_recompute(*a); });
}
