// partita eval: the loss and perplexity of a trained model.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/compute_options.h"
#include "partita/base/log.h"
#include "partita/train/evaluate.h"

namespace {

struct Arguments {
  std::filesystem::path path;
  partita::EvaluateOptions options;
  ComputeArguments compute;
  bool json = false;
};

void run(Arguments a) {
  a.options.precision = partita::parse_dtype(a.compute.precision);
  a.options.device = partita::parse_device(a.compute.device);
  partita::World world = partita::World::connect({});
  partita::log::configure(world.rank(), world.size());
  const partita::Evaluation e = partita::evaluate(a.path, a.options, world);
  if (a.json) {
    const nlohmann::json line = {
        {"loss", e.loss}, {"perplexity", e.perplexity()}, {"tokens", e.tokens}, {"samples", e.samples}};
    partita::log::print(line.dump());
  } else {
    partita::log::print(fmt::format("loss {:.6f}, perplexity {:.4f}, over {} tokens in {} samples of {}", e.loss,
                                    e.perplexity(), e.tokens, e.samples, a.options.data.string()));
  }
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Computes the loss and perplexity of a trained model");
  auto a = std::make_shared<Arguments>();
  partita::EvaluateOptions& o = a->options;
  command->add_option("PATH", a->path, "a Hugging Face folder, a run (its newest checkpoint is taken) or a checkpoint")
      ->required();
  command
      ->add_option("--data", o.data,
                   "prefix of token files; or a file of JSON lines with prompt and completion, which alone counts")
      ->required()
      ->type_name("PREFIX|FILE.jsonl");
  command
      ->add_option("--sequence-length", o.sequence_length,
                   "tokens a window or example; default: the model's longest, but no more than 1024")
      ->check(CLI::PositiveNumber);
  command->add_option("--micro-batch", o.micro_batch, "samples that a rank computes at once")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--batches", o.batches, "stop after so many micro-batches, of all ranks together; default: never")
      ->check(CLI::PositiveNumber);
  command->add_option("--base", o.base, "where the model lies that PATH's adapters adapt; default: where they say");
  command->add_option("--tokenizer", o.tokenizer, "tokenizer.json, for JSON lines; default: the one that lies there");
  command->add_option("--prompt-key", o.prompt_key, "key of the prompt in JSON lines")->capture_default_str();
  command->add_option("--completion-key", o.completion_key, "key of the completion")->capture_default_str();
  add_compute_options(*command, a->compute);
  command->add_option("--zero-stage", o.zero_stage, "3: each rank holds its part of the weights alone")
      ->capture_default_str()
      ->check(CLI::Range(0, 3));
  command->add_flag("--json", a->json, "print one line of JSON: loss, perplexity, tokens, samples");
  command->footer(
      "Examples:\n"
      "  partita eval runs/quickstart --data data/test_text_document\n"
      "  partita launch -n 2 -- eval models/gpt2 --data test.jsonl --json");
  command->callback([a] { run(*a); });
}
