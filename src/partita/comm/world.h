// The processes of the job and the connections between them.
//
//   int main() try {
//     World world = World::connect({});             // rank from Open MPI, Slurm or torchrun; otherwise single
//     Mesh mesh(world);                             // all ranks are data parallel
//     mesh.data().barrier();
//   } catch (const std::exception& error) {
//     std::fprintf(stderr, "%s\n", error.what());   // an error of one rank
//     World::abort(1, error.what());                // ends all ranks within seconds
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
        600'000};  // a collective that takes longer ends the job and names the missing ranks
    // Messages leave late, at random, by up to this: what does not wait for them shows. 0: at once.
    std::chrono::microseconds delay{0};
  };
  // Called once by every process of the job. Errors: launcher variables are incomplete; a peer does not connect in
  // time.
  [[nodiscard]] static World connect(const Options&);

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  // Shuts down in order with the other ranks; communicators are unusable afterwards. A rank that does not shut down
  // within the timeout, or ends otherwise, ends the job with an error that names it. During stack unwinding it
  // does not wait for the others, but leaves the connections to abort().
  ~World();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const Launch& launch() const;
  // A communicator over these world ranks (ascending, including this rank), in the same order on all of them. Exchanges
  // no messages.
  [[nodiscard]] std::unique_ptr<Communicator> group(std::string name, const std::vector<int>& ranks);
  // A communicator over all ranks, and one of this rank alone.
  [[nodiscard]] std::unique_ptr<Communicator> everyone(std::string name);
  [[nodiscard]] std::unique_ptr<Communicator> self() { return group("self", {rank()}); }

  // Ends the whole job immediately, connected or not: the last resort in main after an error on this rank, whose World
  // is destroyed by then. Prints nothing. `cause`: the error, which over sockets the other ranks report.
  [[noreturn]] static void abort(int exit_code, const std::string& cause = {});

 private:
  struct Implementation;
  explicit World(std::unique_ptr<Implementation>);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace partita
