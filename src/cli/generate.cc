// partita generate: generates text with a trained model.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/compute_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/text_options.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/comm/device.h"
#include "partita/comm/host_threads.h"
#include "partita/comm/mesh.h"
#include "partita/generate/generation_defaults.h"
#include "partita/generate/generator.h"
#include "partita/interop/model_source.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  Generator::Paths paths;
  std::string prompt;
  GenerateOptions options;
  ComputeArguments compute;
  bool greedy = false;
};

// Only the options given by the user, without defaults.
GenerationRequest request_of(const CLI::App& command, const Arguments& a) {
  const auto given = [&command](const char* name, const auto& value) {
    return command.count(name) > 0 ? std::optional(value) : std::nullopt;
  };
  return {.temperature = given("--temperature", a.options.sampling.temperature),
          .top_p = given("--top-p", a.options.sampling.top_p),
          .top_k = given("--top-k", a.options.sampling.top_k),
          .tokens = given("--tokens", a.options.tokens),
          .greedy = a.greedy};
}

std::string closing_line(const GenerateReport& r) {
  const auto tokens = [](int64_t n) { return fmt::format("{} token{}", n, n == 1 ? "" : "s"); };
  const double rate = r.tokens_per_second();
  return fmt::format("prompt: {}{}; generated {}{}", tokens(r.prompt_tokens),
                     r.tokens > 0 ? fmt::format(" in {:.2f} s", r.prompt_seconds)
                                  : "",  // tokens were generated, so the prompt was processed
                     tokens(r.tokens), rate > 0 ? fmt::format(" at {:.1f} tokens/s", rate) : "");
}

void run(const CLI::App& command, Arguments a) {
  World world = World::connect({});
  if (world.size() > 1) fail("generate runs in one process, found {} ranks: start it without a launcher", world.size());
  configure_threads(world, 0);
  const c10::Device device = select_device(parse_device(a.compute.device), world);
  const Mesh mesh = Mesh::alone(world, device);
  Generator generator = Generator::open(a.paths, mesh, parse_dtype(a.compute.precision));
  log::info("{} on {}", generator.path().string(), describe_device(device));
  const GenerationChoice choice = choose_generation(request_of(command, a), generator.published());
  if (!choice.published.empty()) log::info("{}", choice.published);
  a.options.sampling = choice.sampling;
  a.options.tokens = choice.tokens;
  const GenerateReport report = generator.generate(a.prompt, a.options, put);
  put("\n");
  log::info("{}", closing_line(report));
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Generate text with a trained model");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "PATH", a->paths.path, "PATH", std::string("Model: ") + kModelPaths)->required();
  add_text(*command, "--prompt", a->prompt, "TEXT", "Text to continue; empty starts a new document");
  add_number(*command, "--tokens", a->options.tokens, at_least(0),
             "Most tokens to generate (default: max_new_tokens of the model's generation_config.json, else 128)")
      ->default_str("");
  add_number(*command, "--temperature", a->options.sampling.temperature, at_least(0),
             "Divisor of the logits; 0 is greedy (default: that of generation_config.json, else 1)")
      ->default_str("");
  add_number(*command, "--top-k", a->options.sampling.top_k, at_least(0),
             "Sample from the k most likely tokens; 0: from all (default: that of generation_config.json, else 0)")
      ->default_str("");
  add_number(*command, "--top-p", a->options.sampling.top_p, {.least = 0, .most = 1, .least_open = true},
             "Sample from the most likely tokens that together reach this probability (default: that of "
             "generation_config.json, else 1)")
      ->default_str("");
  add_number(*command, "--seed", a->options.seed, any_number(), "Seed of sampling; the same seed gives the same text");
  add_text(*command, "--base", a->paths.base, "PATH",
           "Base model of the adapters (default: the path stored with them)");
  add_text(*command, "--tokenizer", a->paths.tokenizer, "PATH", "Tokenizer (default: the one stored with the model)");
  add_compute_options(*command, a->compute);
  command->add_flag("--greedy", a->greedy, "Always take the most likely token");
  add_prompt_options(*command, a->options.specials, "in --prompt");
  command->footer(
      "Example: partita generate runs/quickstart --prompt \"In the beginning\" --tokens 100 --temperature 0.8 --top-k "
      "50");
  command->callback([command, a] { run(*command, *a); });
}

}  // namespace partita::cli
