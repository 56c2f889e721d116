#include "partita/comm/environment.h"

#include <charconv>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/comm/hostlist.h"

namespace partita {
namespace {

// Ports of Slurm jobs: below the range from which Linux hands ports out by itself (32768), in strides that leave
// room for the few ports rank 0 tries when the first is taken.
constexpr int kFirstPort = 15000, kPortStride = 16, kPortGroups = 1000;

class Variables {
 public:
  explicit Variables(const Lookup& lookup) : lookup_(lookup) {}

  [[nodiscard]] bool has(const std::string& name) const { return lookup_(name).has_value(); }
  [[nodiscard]] std::string text(const std::string& name) const { return lookup_(name).value_or(""); }

  // `because` is the variable whose presence makes this one necessary.
  [[nodiscard]] int64_t number(const std::string& name, const std::string& because) const {
    const auto value = lookup_(name);
    if (!value) fail("the environment has {} but not {}: a launcher sets both, or unset {}", because, name, because);
    return parse(name, *value);
  }
  [[nodiscard]] int64_t number_or(const std::string& name, int64_t otherwise) const {
    const auto value = lookup_(name);
    return value ? parse(name, *value) : otherwise;
  }

 private:
  static int64_t parse(const std::string& name, const std::string& value) {
    int64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc{} || end != value.data() + value.size() || parsed < 0 || parsed > INT32_MAX)
      fail("environment variable {}={}: expected a number that is not negative", name, value);
    return parsed;
  }

  const Lookup& lookup_;
};

struct Names {
  std::string rank, size, local_rank, local_size;
};

void read_ranks(const Variables& variables, const Names& names, Launch& launch) {
  // Either of the pair may be the one that is missing.
  launch.rank = static_cast<int>(variables.number(names.rank, names.size));
  launch.size = static_cast<int>(variables.number(names.size, names.rank));
  launch.local_rank = static_cast<int>(variables.number_or(names.local_rank, 0));
  launch.local_size = static_cast<int>(variables.number_or(names.local_size, 1));
  if (launch.size == 0) fail("environment variable {}=0: expected at least 1", names.size);
  if (launch.rank >= launch.size)
    fail("environment: {}={} is not below {}={}", names.rank, launch.rank, names.size, launch.size);
  if (variables.has(names.local_rank) && variables.has(names.local_size) && launch.local_rank >= launch.local_size)
    fail("environment: {}={} is not below {}={}", names.local_rank, launch.local_rank, names.local_size,
         launch.local_size);
}

Launch open_mpi(const Variables& variables) {
  Launch launch{.kind = Launch::Kind::open_mpi};
  read_ranks(
      variables,
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      launch);
  return launch;
}

Launch torchrun(const Variables& variables) {
  Launch launch{.kind = Launch::Kind::torchrun};
  read_ranks(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, launch);
  if (launch.size == 1) return launch;
  launch.master_address = variables.text("MASTER_ADDR");
  if (launch.master_address.empty())
    fail("the environment has WORLD_SIZE={} but not MASTER_ADDR: set it to the host of rank 0", launch.size);
  launch.master_port = static_cast<int>(variables.number("MASTER_PORT", "MASTER_ADDR"));
  if (launch.master_port == 0 || launch.master_port > 65535)
    fail("environment variable MASTER_PORT={}: expected 1 to 65535", launch.master_port);
  launch.job = "torchrun " + variables.text("TORCHELASTIC_RUN_ID");
  return launch;
}

Launch slurm(const Variables& variables) {
  Launch launch{.kind = variables.has("PMIX_RANK") ? Launch::Kind::slurm_pmix : Launch::Kind::slurm};
  const std::string size = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  read_ranks(variables, {"SLURM_PROCID", size, "SLURM_LOCALID", ""}, launch);
  // "2(x3),1": tasks of each node; this node's by its number.
  const std::string tasks = variables.text("SLURM_STEP_TASKS_PER_NODE");
  int64_t node = variables.number_or("SLURM_NODEID", 0), position = 0;
  for (size_t at = 0; at < tasks.size();) {
    int count = 0, repeat = 1;
    auto next = std::from_chars(tasks.data() + at, tasks.data() + tasks.size(), count).ptr;
    if (next + 1 < tasks.data() + tasks.size() && next[0] == '(' && next[1] == 'x')
      next = std::from_chars(next + 2, tasks.data() + tasks.size(), repeat).ptr;
    position += repeat;
    if (node < position) {
      launch.local_size = count;
      break;
    }
    const size_t comma = tasks.find(',', static_cast<size_t>(next - tasks.data()));
    if (comma == std::string::npos) break;
    at = comma + 1;
  }
  if (launch.size == 1 || launch.kind == Launch::Kind::slurm_pmix) return launch;

  const std::string list = variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const std::vector<std::string> hosts = expand_hostlist(variables.text(list));
  if (hosts.empty()) fail("the environment has SLURM_PROCID but neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST");
  launch.master_address = hosts.front();
  launch.master_fallback = variables.text("SLURM_LAUNCH_NODE_IPADDR");
  const int64_t job = variables.number("SLURM_JOB_ID", "SLURM_PROCID"), step = variables.number_or("SLURM_STEP_ID", 0);
  launch.master_port = kFirstPort + kPortStride * static_cast<int>((job * 7 + step) % kPortGroups);
  launch.job = fmt::format("slurm {}.{}", job, step);
  return launch;
}

}  // namespace

Lookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Launch detect_launch(const Lookup& lookup) {
  const Variables variables(lookup);
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE")) return open_mpi(variables);
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return torchrun(variables);
  // A batch script has SLURM_PROCID=0 and SLURM_NTASKS too: only a step's tasks were started by srun.
  if (variables.has("SLURM_STEP_ID") && (variables.has("SLURM_PROCID") || variables.has("SLURM_STEP_NUM_TASKS")))
    return slurm(variables);
  return {};
}

}  // namespace partita
