// partita generate: text from a trained model.
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/compute_options.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/comm/device.h"
#include "partita/comm/device_communicator.h"
#include "partita/comm/world.h"
#include "partita/generate/generator.h"

namespace {

struct Arguments {
  partita::Generator::Paths paths;
  std::string prompt;
  partita::GenerateOptions options;
  ComputeArguments compute;
  bool greedy = false;
};

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void run(Arguments a) {
  if (a.greedy) a.options.sampling.temperature = 0;
  partita::validate(a.options.sampling);
  partita::World world = partita::World::connect({});
  if (world.size() > 1)
    partita::fail("generate runs in one process, found {} ranks: start it without a launcher", world.size());
  const c10::Device device = partita::take_device(partita::parse_device(a.compute.device), world);
  const std::unique_ptr<partita::Communicator> self = partita::on_device(world.group("self", {0}), device);
  partita::Generator generator =
      partita::Generator::open(a.paths, *self, partita::parse_dtype(a.compute.precision), device);
  partita::log::info("{} on {}", generator.path().string(), partita::describe_device(device));
  write(a.prompt);
  const partita::GenerateReport report = generator.generate(a.prompt, a.options, write);
  write("\n");
  partita::log::info("{} tokens of prompt in {:.2f} s, then {} tokens: {:.1f} a second", report.prompt_tokens,
                     report.prompt_seconds, report.tokens, report.tokens_per_second());
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Writes text with a trained model");
  auto a = std::make_shared<Arguments>();
  command
      ->add_option("PATH", a->paths.path,
                   "a Hugging Face folder, a run (its newest checkpoint is taken) or a checkpoint")
      ->required();
  command->add_option("--prompt", a->prompt, "text to go on from; empty: the beginning of a document");
  command->add_option("--tokens", a->options.tokens, "tokens to write at most")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--temperature", a->options.sampling.temperature, "divides the logits; 0 is greedy")
      ->capture_default_str();
  command->add_option("--top-k", a->options.sampling.top_k, "draw from the k likeliest tokens; 0: from all")
      ->capture_default_str();
  command
      ->add_option("--top-p", a->options.sampling.top_p, "draw from the likeliest tokens that reach this probability")
      ->capture_default_str();
  command->add_option("--seed", a->options.seed, "the same seed gives the same text")->capture_default_str();
  command->add_option("--base", a->paths.base,
                      "where the model lies that PATH's adapters adapt; default: where they say");
  command->add_option("--tokenizer", a->paths.tokenizer, "tokenizer.json; default: the one that lies there");
  add_compute_options(*command, a->compute);
  command->add_flag("--greedy", a->greedy, "always the likeliest token");
  command->add_flag("--add-special", a->options.add_special,
                    "around the prompt the tokens that the tokenizer's file puts around a text, such as <s>: for models "
                    "that were trained with them, as Llama's own");
  command->footer(
      "Example: partita generate runs/quickstart --prompt \"In the beginning\" --tokens 100 --temperature 0.8 --top-k "
      "50");
  command->callback([a] { run(*a); });
}
