// partita plan: what memory a run takes, before anything is started.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands.h"
#include "cli/job_ranks.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/train/build_model.h"
#include "partita/train/memory_forecast.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  std::filesystem::path file;
  int64_t ranks = 0;
  double memory = 0;  // GiB of a rank; 0: not given
  bool json = false;
};

constexpr double kGibibyte = 1 << 30;

// "8 ranks on GPUs: data 4 x tensor 2; ZeRO-2; 4 micro-batches of 1 x 2048 tokens on each"
std::string layout_text(const Config& c, int64_t ranks, at::Device device) {
  const ParallelConfig& p = c.parallel;
  std::string groups;
  for (const auto& [name, size] : {std::pair("data", data_ranks(c, ranks)), {"tensor", p.tensor},
                                   {"context", p.context}, {"pipeline", p.pipeline}})
    if (size > 1) groups += fmt::format("{}{} {}", groups.empty() ? ": " : " x ", name, size);
  const int64_t steps = accumulation_steps(c, ranks);
  const char* s = ranks == 1 ? "" : "s";
  return fmt::format("{} rank{} on {}{}{}; ZeRO-{}; {} micro-batch{} of {} x {} tokens on each", ranks, s,
                     device.is_cpu() ? "CPU" : "GPU", s, groups, p.zero_stage, steps, steps == 1 ? "" : "es",
                     c.train.micro_batch, c.train.sequence_length);
}

void show_table(const std::vector<MemoryForecast>& stages) {
  constexpr const char* kName = "{:<18}";
  std::string head = fmt::format(fmt::runtime(kName), "memory per rank");
  for (size_t s = 0; s < stages.size(); ++s)
    head += fmt::format("{:>12}", stages.size() == 1 ? "" : fmt::format("stage {}", s));
  put_line("{}", stages.size() == 1 ? "memory per rank" : head);
  const auto row = [&](const std::string& name, const auto& bytes_of) {
    std::string line = fmt::format(fmt::runtime(kName), name);
    bool any = false;
    for (const MemoryForecast& stage : stages) {
      const int64_t bytes = bytes_of(stage);
      any = any || bytes > 0;
      line += fmt::format("{:>12}", human_bytes(bytes));
    }
    if (any) put_line("{}", line);
  };
  for (size_t owner = 0; owner < stages.front().device.size(); ++owner)
    row("  " + stages.front().device[owner].name, [&](const MemoryForecast& f) { return f.device[owner].bytes; });
  row("device", [](const MemoryForecast& f) { return f.device_bytes(); });
  row("host", [](const MemoryForecast& f) { return f.host; });
  row("disk", [](const MemoryForecast& f) { return f.disk; });
}

void show_json(const Config& c, int64_t ranks, const std::vector<MemoryForecast>& stages, int64_t limit) {
  nlohmann::ordered_json line = {{"ranks", ranks}, {"zero_stage", c.parallel.zero_stage}};
  int64_t most = 0;
  for (const MemoryForecast& stage : stages) {
    nlohmann::ordered_json owners;
    for (const MemoryOwner& owner : stage.device) owners[owner.name] = owner.bytes;
    line["stages"].push_back({{"owners", owners}, {"device", stage.device_bytes()}, {"host", stage.host},
                              {"disk", stage.disk}});
    most = std::max(most, stage.device_bytes());
  }
  if (limit > 0) line["fits"] = most <= limit;
  put_line("{}", line.dump());
}

void run(const Arguments& a, const std::vector<std::string>& settings) {
  ConfigSources sources;
  Config c = load_config(a.file, settings, &sources);
  complete_model(c);
  const int64_t ranks = job_ranks(c.parallel, a.ranks);
  validate_step(c, ranks, &sources);
  check_fp8_sizes(c);
  const at::Device device = c.train.device == DeviceRequest::cpu ? at::kCPU : at::Device(at::kCUDA, 0);
  check_offload(c, device);
  const std::vector<MemoryForecast> stages = forecast_stages(c, ranks, device);
  const int64_t limit = a.memory > 0 ? std::max<int64_t>(1, std::llround(a.memory * kGibibyte)) : 0;  // 0: none
  if (a.json) {
    show_json(c, ranks, stages, limit);
  } else {
    put_line("{}", layout_text(c, ranks, device));
    show_table(stages);
  }
  if (limit == 0) return;
  const FreeMemory free{.bytes = limit, .limit = "as given by --memory"};
  const MemoryForecast needed = std::ranges::max(stages, {}, &MemoryForecast::device_bytes);
  const std::string problem = memory_refusal(needed, free, [&] { return memory_savings(c, ranks, device); });
  if (!problem.empty()) throw Error(problem);
  if (!a.json) put_line("fits: {} of {} remain", human_bytes(limit - needed.device_bytes()), human_bytes(limit));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Show the memory that a run takes, and whether it fits");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "CONFIG", a->file, "CONFIG", "Configuration file in TOML")->required();
  add_number(*command, "--ranks", a->ranks, at_least(1),
             "Ranks of the job (default: parallel.tensor x context x pipeline x data)")
      ->default_str("");
  add_number(*command, "--memory", a->memory, {.least = 0, .most = 1e6, .least_open = true},
             "GiB of device memory that a rank has: an error if the run takes more, with what lowers it")
      ->default_str("");
  command->add_flag("--json", a->json, "Print bytes as one line of JSON");
  command->allow_extras();
  command->footer(
      "What a rank allocates, by owner, of each pipeline stage: computed as the run itself does before it starts, on\n"
      "any machine. With train.device=cpu for CPUs, otherwise for GPUs; there the CUDA context, libraries and\n"
      "fragmentation come on top. Host memory and disk are also per rank: a machine needs them for each of its ranks.\n\n"
      "Example: partita plan my.toml --ranks 8 --memory 80 --parallel.zero_stage=2");
  command->callback([command, a] { run(*a, command->remaining()); });
}

}  // namespace partita::cli
