// The processes of the job and how they reach each other.
//
//   World world = World::connect({});             // finds its rank from Open MPI, Slurm, torchrun, or is alone
//   Mesh mesh(world, {.data = world.size()});
//   mesh.data().barrier();
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partita/comm/communicator.h"

namespace partita {

// Where a process stands, from its environment. Pure: `lookup` stands for getenv.
struct Launch {
  enum class Kind : uint8_t { single, open_mpi, slurm_pmix, slurm, torchrun } kind = Kind::single;
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string master_address;  // torchrun, slurm: where rank 0 listens
  int master_port = 0;
};

class World {
 public:
  struct Options {
    std::chrono::seconds timeout{600};  // a collective that takes longer ends the job, naming who did not arrive
  };
  [[nodiscard]] static World connect(const Options&);

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const Launch& launch() const;
  // A communicator over these world ranks (ascending, containing this rank), in the same order on all of them.
  [[nodiscard]] std::unique_ptr<Communicator> group(std::string name, const std::vector<int>& ranks);
  // Takes the whole job down at once: for main's last resort after an error on this rank. Prints nothing.
  [[noreturn]] void abort(int exit_code);

 private:
  struct Implementation;
  explicit World(std::unique_ptr<Implementation>);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace partita
