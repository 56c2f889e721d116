// Delays copies as long as allowed, or randomly: sources overwritten too early and targets read too early then change
// the results. Runs without a device.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "partita/device/copies.h"

namespace partita::internal::test {

class LateCopies final : public Copies {
 public:
  // share: how many of 100 calls make what is due at once; 0: only who waits does.
  explicit LateCopies(unsigned seed, unsigned share) : lanes_{Lane(seed, share), Lane(seed + 1, share)} {}

  Event down(at::Tensor host, at::Tensor device, const Event& after) override {
    return lanes_.first.add(std::move(host), std::move(device), after);
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override {
    return lanes_.second.add(std::move(device), std::move(host), after);
  }

 private:
  struct Copy {
    at::Tensor to, from;
  };

  // One direction: copies are made in order. Shared with its events, which may live longer than the copies.
  struct State {
    std::mutex mutex;
    std::mt19937 random;
    unsigned share;
    std::deque<Copy> due;
    int64_t given = 0, made = 0;

    void make_until(int64_t count) {
      while (made < count) {
        const Copy copy = std::move(due.front());
        due.pop_front();
        copy.to.copy_(copy.from);
        ++made;
      }
    }
  };

  struct Moment final : EventState {
    Moment(std::shared_ptr<State> the_state, int64_t the_count) : state(std::move(the_state)), count(the_count) {}
    bool test() override {
      const std::lock_guard lock(state->mutex);
      return state->made >= count;
    }
    void wait() override {
      const std::lock_guard lock(state->mutex);
      state->make_until(count);
    }
    std::shared_ptr<State> state;
    int64_t count;
  };

  class Lane {
   public:
    Lane(unsigned seed, unsigned share) : state_(std::make_shared<State>()) {
      state_->random.seed(seed);
      state_->share = share;
    }
    // A collective is waited for by the thread that began it, as streams of the CPU do; copies may be made by others.
    Event add(at::Tensor to, at::Tensor from, const Event& after) {
      after.wait();
      const std::lock_guard lock(state_->mutex);
      state_->due.push_back({std::move(to), std::move(from)});
      const int64_t count = ++state_->given;
      if (state_->random() % 100 < state_->share)
        state_->make_until(state_->made + static_cast<int64_t>(state_->random() % state_->due.size()) + 1);
      return Event(std::make_shared<Moment>(state_, count));
    }

   private:
    std::shared_ptr<State> state_;
  };

  std::pair<Lane, Lane> lanes_;
};

}  // namespace partita::internal::test
