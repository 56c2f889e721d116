// Ranks as threads of one process, for checkpoint tests.
//
//   run_ranks(3, [&](Peers& peers) { save_checkpoint(root, 1, state_of(peers.rank()), peers); });
#pragma once
#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "partita/checkpoint/peers.h"

namespace partita::internal::test {

class ThreadPeers final : public Peers {
 public:
  struct Shared {
    explicit Shared(int ranks) : texts(static_cast<size_t>(ranks)), barrier(ranks) {}
    std::vector<std::string> texts;
    std::barrier<> barrier;
  };

  ThreadPeers(int rank, Shared& shared) : rank_(rank), shared_(shared) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(shared_.texts.size()); }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    shared_.texts[static_cast<size_t>(rank_)] = mine;
    shared_.barrier.arrive_and_wait();
    std::vector<std::string> all = shared_.texts;
    shared_.barrier.arrive_and_wait();  // all have read: the next gather may write
    return all;
  }

 private:
  int rank_;
  Shared& shared_;
};

// Runs `work` as each of the ranks; returns what each of them threw ("" for nothing), in rank order.
inline std::vector<std::string> errors_of_ranks(int ranks, const std::function<void(Peers&)>& work) {
  ThreadPeers::Shared shared(ranks);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        ThreadPeers peers(rank, shared);
        try {
          work(peers);
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(rank)] = error.what();
        }
      });
  }
  return errors;
}

// The same for work that must not fail.
inline void run_ranks(int ranks, const std::function<void(Peers&)>& work) {
  for (const std::string& error : errors_of_ranks(ranks, work))
    if (!error.empty()) throw std::runtime_error(error);
}

}  // namespace partita::internal::test
