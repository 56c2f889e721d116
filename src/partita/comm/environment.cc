#include "partita/comm/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/number.h"
#include "partita/comm/foreign_launcher.h"
#include "partita/comm/hostlist.h"

namespace partita {
using namespace internal;
namespace {

// Ports of Slurm jobs: below Linux's ephemeral range (32768 and up), at a stride that leaves room for the few ports
// that rank 0 tries if the first is taken.
constexpr int kFirstPort = 15000, kPortStride = 16, kPortGroups = 1000;
constexpr const char* kJobKey = "PARTITA_JOB_KEY";

class Variables {
 public:
  explicit Variables(const Lookup& lookup) : lookup_(lookup) {}

  [[nodiscard]] bool has(const std::string& name) const { return lookup_(name).has_value(); }
  [[nodiscard]] std::string text(const std::string& name) const { return lookup_(name).value_or(""); }

  // `because`: the variable whose presence makes this one required.
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
    const auto parsed = parse_number<int64_t>(value);
    if (!parsed || *parsed < 0 || *parsed > INT32_MAX)
      fail("environment variable {}={}: expected a number from 0 to {}", name, value, INT32_MAX);
    return *parsed;
  }

  const Lookup& lookup_;
};

struct Names {
  std::string rank, size, local_rank, local_size;
};

void read_ranks(const Variables& variables, const Names& names, Launch& launch) {
  // Either one of the pair may be missing.
  launch.rank = static_cast<int>(variables.number(names.rank, names.size));
  launch.size = static_cast<int>(variables.number(names.size, names.rank));
  launch.local_rank = static_cast<int>(variables.number_or(names.local_rank, 0));
  launch.local_size = static_cast<int>(variables.number_or(names.local_size, 1));
  if (launch.size == 0 || launch.size > kMostRanks)
    fail("environment variable {}={}: expected 1 to {} ranks", names.size, launch.size, kMostRanks);
  if (launch.rank >= launch.size)
    fail("environment: {}={} is not below {}={}", names.rank, launch.rank, names.size, launch.size);
  if (launch.local_size > launch.size)
    fail("environment: {}={} is above {}={}", names.local_size, launch.local_size, names.size, launch.size);
  if (launch.local_rank >= launch.size)
    fail("environment: {}={} is not below {}={}", names.local_rank, launch.local_rank, names.size, launch.size);
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
  if (variables.has("LOCAL_WORLD_SIZE"))
    launch.hosts = launch.local_size == launch.size ? Launch::Hosts::one : Launch::Hosts::several;
  launch.agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  // Excludes MASTER_ADDR, which ranks may spell differently.
  launch.job = fmt::format("torchrun {} attempt {} port {}", variables.text("TORCHELASTIC_RUN_ID"),
                           variables.text("TORCHELASTIC_RESTART_COUNT"), launch.master_port);
  launch.secret = variables.text(kJobKey);
  return launch;
}

Launch slurm(const Variables& variables) {
  Launch launch{.kind = variables.has("PMIX_RANK") ? Launch::Kind::slurm_pmix : Launch::Kind::slurm};
  const std::string size = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  read_ranks(variables, {"SLURM_PROCID", size, "SLURM_LOCALID", ""}, launch);
  // "2(x3),1": tasks per node; this node's entry is selected by its number.
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
  launch.ports = kPortStride;
  launch.hosts = hosts.size() == 1 ? Launch::Hosts::one : Launch::Hosts::several;
  launch.job = fmt::format("slurm {}.{} attempt {}", job, step, variables.number_or("SLURM_RESTART_COUNT", 0));
  launch.secret = variables.text(kJobKey);
  return launch;
}

bool is_step(const Variables& variables) {
  // Batch scripts also have SLURM_PROCID=0 and SLURM_NTASKS: only tasks of a step were started by srun.
  return variables.has("SLURM_STEP_ID") && (variables.has("SLURM_PROCID") || variables.has("SLURM_STEP_NUM_TASKS"));
}

// srun --mpi=pmi2 sets PMI variables for its tasks; those of an mpiexec within a step have other values.
bool set_by_srun(const ForeignLauncher& foreign, const Variables& variables) {
  return foreign.rank_variable == "PMIX_RANK" ||
         (foreign.rank == variables.text("SLURM_PROCID") && foreign.size == variables.text("SLURM_STEP_NUM_TASKS"));
}

enum class Launcher : uint8_t { open_mpi, torchrun, foreign, srun };

// The launcher that an ancestor belongs to, if any.
std::optional<Launcher> launcher_of(const std::string& program) {
  if (is_open_mpi_launcher(program)) return Launcher::open_mpi;
  for (const char* name :
       {"hydra_pmi_proxy", "mpiexec.hydra", "mpiexec.mpich", "mpispawn", "jsrun", "palsd", "flux-shell"})
    if (program == name) return Launcher::foreign;
  if (program == "torchrun") return Launcher::torchrun;
  if (program.starts_with("slurmstepd")) return Launcher::srun;
  return {};
}

// The innermost launcher among those whose variables are set.
std::optional<Launcher> innermost(const std::vector<Launcher>& present, const Ancestors& ancestors) {
  if (present.empty()) return {};
  if (present.size() > 1)
    for (const std::string& program : ancestors())
      if (const auto launcher = launcher_of(program); launcher && std::ranges::count(present, *launcher) > 0)
        return launcher;
  return present.front();
}

[[noreturn]] void refuse(const ForeignLauncher& foreign) {
  fail(
      "this process was started by {} ({}), whose ranks cannot work together here, so that each would train alone: "
      "start them by `partita launch`, Open MPI's mpirun, srun or torchrun; to run one process alone, unset {}",
      foreign.name, foreign.variables(), foreign.rank_variable);
}

// mpirun's variables, possibly with RANK and WORLD_SIZE set by hand.
Launch open_mpi_or_variables(const Variables& variables) {
  const Launch mpi = open_mpi(variables);
  if (!variables.has("RANK") || !variables.has("WORLD_SIZE")) return mpi;
  const Launch own = torchrun(variables);
  if (own.size == 1 || (own.rank == mpi.rank && own.size == mpi.size)) return mpi;
  if (mpi.size == 1) return own;
  fail(
      "the environment has OMPI_COMM_WORLD_RANK={} of OMPI_COMM_WORLD_SIZE={} of mpirun, and RANK={} of WORLD_SIZE={}: "
      "unset those of the launcher that does not count",
      mpi.rank, mpi.size, own.rank, own.size);
}

}  // namespace

Lookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Launch detect_launch(const Lookup& lookup, const Ancestors& ancestors) {
  const Variables variables(lookup);
  const bool ranks = variables.has("RANK") || variables.has("WORLD_SIZE");
  const bool by_torchrun = ranks && variables.has("TORCHELASTIC_RUN_ID");
  // Clusters set WORLD_SIZE=1 for single processes, which says nothing about a launcher started within them.
  const bool alone = variables.text("WORLD_SIZE") == "1" && variables.number_or("RANK", 0) == 0;
  const bool by_hand = ranks && !by_torchrun && !alone;
  auto foreign = find_foreign_launcher(lookup);
  if (foreign && is_step(variables) && set_by_srun(*foreign, variables)) foreign.reset();

  // In order of precedence if the ancestors are inconclusive. Open MPI 5 sets PMIx variables, too.
  std::vector<Launcher> present;
  if (by_torchrun) present.push_back(Launcher::torchrun);
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE"))
    present.push_back(Launcher::open_mpi);
  if (foreign) present.push_back(Launcher::foreign);
  if (is_step(variables)) present.push_back(Launcher::srun);

  const auto last = innermost(present, ancestors);
  if (last == Launcher::torchrun) return torchrun(variables);
  if (last == Launcher::open_mpi) return by_hand ? open_mpi_or_variables(variables) : open_mpi(variables);
  if (by_hand) return torchrun(variables);
  if (last == Launcher::foreign && !foreign->alone()) refuse(*foreign);
  if (last == Launcher::srun) return slurm(variables);
  return {};
}

Launch launch_of_this_process() { return detect_launch(process_environment(), process_ancestors); }

}  // namespace partita
