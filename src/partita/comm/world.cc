#include "partita/comm/world.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/failure.h"
#include "partita/base/log.h"
#include "partita/comm/delayed_transport.h"
#include "partita/comm/launcher_watch.h"
#include "partita/comm/mpi_transport.h"
#include "partita/comm/mpirun_output.h"
#include "partita/comm/operation.h"
#include "partita/comm/peer_communicator.h"
#include "partita/comm/tcp_transport.h"

namespace partita {
using namespace internal;
namespace {

// For abort(): the job's connection outlives a World destroyed by an exception.
std::shared_ptr<Operations>& connection() {
  static auto* operations = new std::shared_ptr<Operations>;  // never destroyed: MPI may be gone at exit
  return *operations;
}

std::unique_ptr<Transport> make_transport(const Launch& launch, const World::Options& options) {
  if (launch.uses_mpi()) return make_mpi_transport();
  if (launch.size == 1) return make_local_transport();
  return make_tcp_transport(launch, options.timeout);
}

// mpirun does not forward SIGINT, but it does forward SIGUSR1, which launch() sends on Ctrl-C.
void take_interrupts_from_mpirun() {
  struct sigaction now {};
  if (sigaction(SIGUSR1, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;  // the program handles it itself
  now.sa_handler = [](int) { raise(SIGINT); };
  now.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &now, nullptr);
}

}  // namespace

struct World::Implementation {
  Launch launch;
  std::shared_ptr<Operations> operations;
  std::vector<uint32_t> groups_with;  // by rank: number of groups so far that include it and this rank
  int exceptions = 0;                 // uncaught exceptions at construction
  std::unique_ptr<Communicator> end;  // MPI: all ranks synchronize on it at the end
};

World::World(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
World::World(World&&) noexcept = default;

World& World::operator=(World&& other) noexcept {
  std::swap(implementation_, other.implementation_);
  return *this;
}

World World::connect(const Options& options) {
  auto implementation = std::make_unique<Implementation>();
  implementation->launch = launch_of_this_process();
  const Launch& launch = implementation->launch;
  auto transport = make_transport(launch, options);
  if (transport->rank() != launch.rank || transport->size() != launch.size)
    fail("the launcher says rank {} of {}, the connection rank {} of {}: is another MPI library's mpirun on PATH?",
         launch.rank, launch.size, transport->rank(), transport->size());
  if (options.delay.count() > 0)
    transport = make_delayed_transport(std::move(transport), options.delay, static_cast<uint64_t>(launch.rank));
  implementation->operations = std::make_shared<Operations>(std::move(transport), options.timeout);
  implementation->groups_with.resize(static_cast<size_t>(launch.size));
  implementation->exceptions = std::uncaught_exceptions();
  connection() = implementation->operations;
  if (launch.kind == Launch::Kind::open_mpi) take_interrupts_from_mpirun();
  // A process without a rank from a launcher may outlive its parent.
  if (launch.kind != Launch::Kind::single) end_with_launcher(launch.rank);
  World world(std::move(implementation));
  if (world.launch().uses_mpi()) {
    world.implementation_->end = world.everyone("end");
  }
  return world;
}

World::~World() {
  if (!implementation_ || std::uncaught_exceptions() > implementation_->exceptions) return;
  try {
    // MPI_Finalize waits for every rank without a timeout, so synchronize with a timeout first. Sockets have their own
    // timeout, and distinguish a rank that left early from a late one.
    if (implementation_->end) implementation_->end->barrier();
    implementation_->operations->close();
  } catch (const std::exception& error) {
    const std::string text = failure_text(error);
    log::error("{}", text);
    abort(1, text);
  }
  if (connection() == implementation_->operations) connection().reset();
}

int World::rank() const { return implementation_->launch.rank; }
int World::size() const { return implementation_->launch.size; }
const Launch& World::launch() const { return implementation_->launch; }

std::unique_ptr<Communicator> World::everyone(std::string name) {
  std::vector<int> ranks(static_cast<size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return group(std::move(name), ranks);
}

std::unique_ptr<Communicator> World::group(std::string name, const std::vector<int>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size()) fail("group {}: {} is not a rank of {}", name, ranks[i], size());
    if (i > 0 && ranks[i] <= ranks[i - 1]) fail("group {}: ranks are not ascending at {}", name, ranks[i]);
  }
  const auto self = std::lower_bound(ranks.begin(), ranks.end(), rank());
  if (self == ranks.end() || *self != rank()) fail("group {} does not contain this rank, {}", name, rank());
  // Two ranks create the groups that include both in the same order, so each can number them on its own.
  Group group{std::move(name), static_cast<int>(self - ranks.begin()), ranks, {}};
  for (int peer : ranks) group.channels.push_back(implementation_->groups_with[static_cast<size_t>(peer)]++);
  return std::make_unique<PeerCommunicator>(implementation_->operations, std::move(group));
}

void World::abort(int exit_code, const std::string& cause) {
  if (std::getenv(MpirunOutput::kVariable) != nullptr) {
    std::fputs(MpirunOutput::farewell(launch_of_this_process().rank, exit_code).c_str(), stderr);
    std::fflush(stderr);
  }
  if (connection()) connection()->transport().abort(exit_code, cause);
  _exit(exit_code);
}

}  // namespace partita
