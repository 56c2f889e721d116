// The processes of the job and how they reach each other.
//
//   int main() try {
//     World world = World::connect({});             // finds its rank from Open MPI, Slurm, torchrun, or is alone
//     Mesh mesh(world);                             // all ranks are data parallel
//     mesh.data().barrier();
//   } catch (const std::exception& error) {
//     std::fprintf(stderr, "%s\n", error.what());   // an error of one rank
//     World::abort(1, error.what());                // ends all of them, within seconds
//   }
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/comm/environment.h"

namespace partita {

class World {
 public:
  struct Options {
    std::chrono::milliseconds timeout{
        600'000};  // a collective that takes longer ends the job, naming who did not arrive
  };
  // Every process of the job calls this, once. Errors: the environment is set by half; a peer does not come in time.
  [[nodiscard]] static World connect(const Options&);

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  // Ends in order, together with the other ranks; communicators are of no use after that. A rank that does not come to
  // its end within the timeout, or ends otherwise, ends the job with an error that names it. When an exception is under
  // way this rank does not wait for the others: it leaves the connection to abort().
  ~World();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const Launch& launch() const;
  // A communicator over these world ranks (ascending, containing this rank), in the same order on all of them.
  // No messages are exchanged.
  [[nodiscard]] std::unique_ptr<Communicator> group(std::string name, const std::vector<int>& ranks);
  // A communicator over all ranks, and one of this rank alone.
  [[nodiscard]] std::unique_ptr<Communicator> everyone(std::string name);
  [[nodiscard]] std::unique_ptr<Communicator> self() { return group("self", {rank()}); }

  // Takes the whole job down at once, connected or not: for main's last resort after an error on this rank, whose World
  // is gone by then. Prints nothing. `cause`: the error; over sockets the other ranks name it.
  [[noreturn]] static void abort(int exit_code, const std::string& cause = {});

 private:
  struct Implementation;
  explicit World(std::unique_ptr<Implementation>);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace partita
