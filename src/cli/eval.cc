// partita eval: loss and perplexity of a trained model.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/compute_options.h"
#include "cli/options.h"
#include "cli/text_options.h"
#include "partita/base/log.h"
#include "partita/base/printable.h"
#include "partita/interop/model_source.h"
#include "partita/train/evaluate.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  std::filesystem::path path;
  EvaluateOptions options;
  ComputeArguments compute;
  bool json = false;
};

void run(Arguments a) {
  a.options.precision = parse_dtype(a.compute.precision);
  a.options.device = parse_device(a.compute.device);
  World world = World::connect({});
  log::configure(world.rank(), world.size());
  const Evaluation e = evaluate(a.path, a.options, world);
  if (a.json) {
    const nlohmann::json line = {
        {"loss", e.loss}, {"perplexity", e.perplexity()}, {"tokens", e.tokens}, {"samples", e.samples}};
    log::print(line.dump());
  } else {
    log::print(fmt::format("loss {:.6f}, perplexity {:.4f}, over {} tokens in {} samples of {}", e.loss, e.perplexity(),
                           e.tokens, e.samples, printable_line(a.options.data.string())));
  }
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Compute the loss and perplexity of a trained model");
  auto a = std::make_shared<Arguments>();
  EvaluateOptions& o = a->options;
  add_text(*command, "PATH", a->path, "PATH", std::string("Model: ") + kModelPaths)->required();
  add_text(*command, "--data", o.data, "PREFIX|FILE.jsonl",
           "Prefix of token files; or JSON lines of prompts and completions, of which only completions are scored")
      ->required();
  add_number(*command, "--sequence-length", o.sequence_length, at_least(1),
             "Tokens per window or example (default: the model's longest, at most 1024)")
      ->default_str("");
  add_number(*command, "--micro-batch", o.micro_batch, at_least(1), "Samples per rank in one forward pass");
  add_number(*command, "--batches", o.batches, at_least(1),
             "Evaluate at most N micro-batches over all ranks (default: all)")
      ->default_str("");
  add_text(*command, "--base", o.base, "PATH", "Base model of the adapters (default: the path stored with them)");
  add_text(*command, "--tokenizer", o.tokenizer, "PATH",
           "Tokenizer for JSON lines (default: the one stored with the model)");
  add_text(*command, "--prompt-key", o.prompt_key, "KEY", "Key of the prompt in JSON lines");
  add_text(*command, "--completion-key", o.completion_key, "KEY", "Key of the completion in JSON lines");
  add_prompt_options(*command, o.specials, "of JSON lines");
  add_compute_options(*command, a->compute);
  add_number(*command, "--zero-stage", o.zero_stage, between(0, 3), "3: each rank holds only its part of the weights");
  command->add_flag("--json", a->json, "Print one line of JSON: loss, perplexity, tokens, samples");
  command->footer(
      "Examples:\n"
      "  partita eval runs/quickstart --data data/test_text_document\n"
      "  partita launch -n 2 -- eval models/gpt2 --data test.jsonl --json");
  command->callback([a] { run(*a); });
}

}  // namespace partita::cli
