// partita plan: what memory and time a run takes, before anything is started.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/commands.h"
#include "cli/job_ranks.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/train/build_model.h"
#include "partita/train/disk_forecast.h"
#include "partita/train/memory_changes.h"
#include "partita/train/memory_forecast.h"
#include "partita/train/memory_table.h"
#include "partita/train/memory_tier.h"
#include "partita/train/step_forecast.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  std::filesystem::path file;
  int64_t ranks = 0;
  double memory = 0, host = 0;  // GiB of a rank; 0: not given
  // Of a rank, in TFLOP/s and GB/s; 0: not given.
  double device_flops = 0, device_memory = 0, link = 0, host_memory = 0, disk = 0, network = 0;
  bool json = false;
};

constexpr double kGibibyte = 1 << 30;

// "8 ranks on GPUs: data 4 x tensor 2; ZeRO-2; 4 micro-batches of 1 x 2048 tokens on each"
std::string layout_text(const Config& c, int64_t ranks, at::Device device) {
  const ParallelConfig& p = c.parallel;
  std::string groups;
  for (const auto& [name, size] : {std::pair("data", data_ranks(c, ranks)),
                                   {"tensor", p.tensor},
                                   {"context", p.context},
                                   {"pipeline", p.pipeline}})
    if (size > 1) groups += fmt::format("{}{} {}", groups.empty() ? ": " : " x ", name, size);
  const int64_t steps = accumulation_steps(c, ranks);
  const char* s = ranks == 1 ? "" : "s";
  return fmt::format("{} rank{} on {}{}{}; ZeRO-{}; {} micro-batch{} of {} x {} tokens on each", ranks, s,
                     device.is_cpu() ? "CPU" : "GPU", s, groups, p.zero_stage, steps, steps == 1 ? "" : "es",
                     c.train.micro_batch, c.train.sequence_length);
}

nlohmann::ordered_json memory_json(const EngineMemory& m) {
  return {{"weights", m.weights},         {"gradients", m.gradients},
          {"master weights", m.master},   {"optimizer states", m.optimizer},
          {"activations", m.activations}, {"temporaries", m.temporaries}};
}

nlohmann::ordered_json timeline_json(const MemoryTimeline& timeline, const std::vector<std::string>& blocks) {
  nlohmann::ordered_json moments;
  for (const MemoryMoment& m : timeline.moments) {
    nlohmann::ordered_json& moment = moments.emplace_back();
    moment = {{"at", moment_name(m, blocks)}, {"micro_batch", m.micro_batch}, {"in_use", m.bytes()}};
    moment.update(memory_json(m.in_use));
  }
  return moments;
}

nlohmann::ordered_json step_json(const StepForecast& f, const StepRates& rates) {
  nlohmann::ordered_json resources;
  for (size_t r = 0; r < kStepResources; ++r) {
    const auto resource = static_cast<StepResource>(r);
    const double amount = f.load.total(resource);
    resources[std::string(key_of(resource))] = {
        {"amount", amount}, {"rate", rates[resource]}, {"seconds", amount / rates[resource]}};
  }
  return {
      {"seconds", f.time.seconds}, {"bound", key_of(f.time.bound)},   {"seconds_without_bound", f.time.unbound_seconds},
      {"flops", f.load.flops},     {"device_to_host", f.load.down()}, {"host_to_device", f.load.up()},
      {"resources", resources}};
}

struct Plan {
  const Config& config;
  int64_t ranks;
  at::Device device;
  std::vector<MemoryForecast> stages;
  StepRates rates;

  [[nodiscard]] const MemoryForecast& largest() const {
    return *std::ranges::max_element(stages, {}, &MemoryForecast::device_bytes);
  }
  [[nodiscard]] StepForecast step() const { return forecast_step(config, ranks, device, rates); }
};

// Of each rank, with the checkpoints that are kept in memory.
std::vector<MemoryForecast> stages_of(const Config& c, int64_t ranks, at::Device device) {
  std::vector<MemoryForecast> stages = forecast_stages(c, ranks, device);
  if (c.checkpoint.memory_every == 0) return stages;
  const int64_t kept = memory_tier_bytes(checkpoint_bytes(c)) / ranks;
  for (MemoryForecast& stage : stages) {
    if (device.is_cpu())
      stage.device.push_back({"checkpoints", kept});
    else
      stage.host += kept;
  }
  return stages;
}

// room: none where it is not limited.
void show_json(const Plan& p, const std::optional<MemoryRoom>& room) {
  nlohmann::ordered_json line = {{"ranks", p.ranks}, {"zero_stage", p.config.parallel.zero_stage}};
  for (size_t s = 0; s < p.stages.size(); ++s) {
    const MemoryForecast& stage = p.stages[s];
    nlohmann::ordered_json owners;
    for (const MemoryOwner& owner : stage.device) owners[owner.name] = owner.bytes;
    const int rank = static_cast<int>(s);
    line["stages"].push_back({{"owners", owners},
                              {"device", stage.device_bytes()},
                              {"host", stage.host},
                              {"disk", stage.disk},
                              {"moments", timeline_json(forecast_timeline(p.config, p.ranks, p.device, rank),
                                                        block_names(p.config, rank))}});
  }
  line["step"] = step_json(p.step(), p.rates);
  if (room) line["fits"] = p.largest().device_bytes() <= room->device && p.largest().host <= room->host;
  put_line("{}", line.dump());
}

void show_tables(const Plan& p) {
  const Config& c = p.config;
  put_line("{}", layout_text(c, p.ranks, p.device));
  put(memory_table(p.stages));
  const auto stage = static_cast<int>(&p.largest() - p.stages.data());
  put("\n" + (p.stages.size() > 1 ? fmt::format("stage {}, ", stage) : std::string()) +
      timeline_table(forecast_timeline(c, p.ranks, p.device, stage), block_names(c, stage)));
  put_line("\n{}", step_text(p.step(), p.rates, c.train.global_batch * c.train.sequence_length));
}

// Those of the machine that the plan is for, where they are given.
StepRates rates_of(const Arguments& a, DType compute, at::Device device) {
  constexpr double kGiga = 1e9, kTera = 1e12;
  StepRates rates = a.device_flops > 0 ? default_rates(compute, device) : rates_here(compute, device);
  const auto set = [&](StepResource r, double given, double unit) {
    if (given > 0) rates[r] = given * unit;
  };
  set(StepResource::compute, a.device_flops, kTera);
  set(StepResource::device_memory, a.device_memory, kGiga);
  set(StepResource::link, a.link, kGiga);
  set(StepResource::host_memory, a.host_memory, kGiga);
  set(StepResource::disk, a.disk, kGiga);
  set(StepResource::network, a.network, kGiga);
  return rates;
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
  const Plan plan{.config = c,
                  .ranks = ranks,
                  .device = device,
                  .stages = stages_of(c, ranks, device),
                  .rates = rates_of(a, c.precision.compute, device)};
  std::optional<MemoryRoom> given;
  if (a.memory > 0) given = {.device = std::max<int64_t>(1, std::llround(a.memory * kGibibyte))};
  if (given && a.host > 0) given->host = std::llround(a.host * kGibibyte);
  if (a.json)
    show_json(plan, given);
  else
    show_tables(plan);
  if (!given) return;
  const MemoryRoom& room = *given;
  const FreeMemory free{.bytes = room.device, .limit = "as given by --memory"};
  const std::string problem =
      memory_refusal(plan.largest(), free, [&] { return memory_changes(c, ranks, device, room, plan.rates); });
  if (!problem.empty()) throw Error(problem);
  if (const int64_t host = plan.largest().host; host > room.host)
    fail("{} of host memory is needed per rank, and {} is there (as given by --host)", human_bytes(host),
         human_bytes(room.host));
  if (!a.json)
    put_line("fits: {} of {} remain", human_bytes(room.device - plan.largest().device_bytes()),
             human_bytes(room.device));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "Show the memory that a run takes, whether it fits, and the time of a step");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "CONFIG", a->file, "CONFIG", "Configuration file in TOML")->required();
  add_number(*command, "--ranks", a->ranks, at_least(1),
             "Ranks of the job (default: parallel.tensor x context x pipeline x data)")
      ->default_str("");
  add_number(*command, "--memory", a->memory, {.least = 0, .most = 1e6, .least_open = true},
             "GiB of device memory that a rank has: an error if the run takes more, with the cheapest changes that fit")
      ->default_str("");
  add_number(*command, "--host", a->host, {.least = 0, .most = 1e6, .least_open = true},
             "GiB of host memory per rank for what is offloaded and checkpoints in memory; needs --memory")
      ->default_str("")
      ->needs("--memory");
  const auto add_rate = [&](const char* name, double& rate, const char* help) {
    add_number(*command, name, rate, {.least = 0, .most = 1e9, .least_open = true}, help)->default_str("");
  };
  add_rate("--device-flops", a->device_flops, "TFLOP/s of matmuls that a rank's device reaches");
  add_rate("--device-memory", a->device_memory, "GB/s of its memory (a rate; its size is --memory)");
  add_rate("--link", a->link, "GB/s between device and host, in each direction");
  add_rate("--host-memory", a->host_memory, "GB/s of host memory for a rank (a rate; its size is --host)");
  add_rate("--disk", a->disk, "GB/s of memory.disk_folder for a rank, reading and writing");
  add_rate("--network", a->network, "GB/s from other ranks");
  command->add_flag("--json", a->json, "Print bytes, all moments of a step and seconds as one line of JSON");
  command->allow_extras();
  command->footer(
      "What a rank allocates, by owner, of each pipeline stage: computed as the run itself does before it starts, on\n"
      "any machine. With train.device=cpu for CPUs, otherwise for GPUs; there the CUDA context, libraries and\n"
      "fragmentation come on top. Host memory and disk are also per rank: a machine needs them for each of its ranks.\n"
      "Then what is in use during a step, and an estimate of its time: what a rank computes and moves, at rates that\n"
      "are those of an H100 or H200 with PCIe 5 and NVLink unless they are given, and what the step is bound by.\n"
      "On CPUs, matmuls are measured on this machine.\n\n"
      "Example: partita plan my.toml --ranks 8 --memory 80 --parallel.zero_stage=2");
  command->callback([command, a] { run(*a, command->remaining()); });
}

}  // namespace partita::cli
