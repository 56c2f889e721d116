// partita generate: text from a trained model.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/compute_options.h"
#include "cli/options.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/printable.h"
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

// What a model writes may hold anything: on a terminal control characters are spelled out, a file or pipe gets the text.
void write(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) != 0;
  const std::string shown = terminal ? partita::printable(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
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
  CLI::App* command = app.add_subcommand("generate", "Generate text with a trained model");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "PATH", a->paths.path, "PATH",
           "A Hugging Face folder, the folder of a run (its newest checkpoint), or a checkpoint")
      ->required();
  add_text(*command, "--prompt", a->prompt, "TEXT", "Text to continue; empty starts a new document");
  add_number(*command, "--tokens", a->options.tokens, partita::at_least(0), "Most tokens to generate");
  add_number(*command, "--temperature", a->options.sampling.temperature, partita::at_least(0),
             "Divisor of the logits; 0 is greedy");
  add_number(*command, "--top-k", a->options.sampling.top_k, partita::at_least(0),
             "Sample from the k most likely tokens; 0: from all");
  add_number(*command, "--top-p", a->options.sampling.top_p, {.least = 0, .most = 1, .least_open = true},
             "Sample from the most likely tokens that together reach this probability");
  add_number(*command, "--seed", a->options.seed, partita::any_number(),
             "Seed of sampling; the same seed gives the same text");
  add_text(*command, "--base", a->paths.base, "PATH", "Base model of the adapters (default: the path stored with them)");
  add_text(*command, "--tokenizer", a->paths.tokenizer, "PATH", "Tokenizer (default: the one stored with the model)");
  add_compute_options(*command, a->compute);
  command->add_flag("--greedy", a->greedy, "Always take the most likely token");
  command->add_flag("--add-special", a->options.add_special,
                    "Add the tokenizer's special tokens (such as <s>) to the prompt, for models trained with them");
  command->footer(
      "Example: partita generate runs/quickstart --prompt \"In the beginning\" --tokens 100 --temperature 0.8 --top-k "
      "50");
  command->callback([a] { run(*a); });
}
