#include "partita/comm/operation.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "partita/base/error.h"
#include "partita/comm/call_text.h"
#include "partita/comm/stall.h"

namespace partita::internal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Spins during short waits, since a message between running ranks takes microseconds; then yields, and soon sleeps,
// since the awaited rank may need this very core.
constexpr int kSpins = 100;
constexpr auto kYieldFor = 200us, kShortestSleep = 20us, kLongestSleep = 200us;

constexpr auto kListenEvery = 100ms;  // maximum delay of answers to other ranks' questions
constexpr auto kAnswerWithin = 3s;

class Backoff {
 public:
  void pause(Transport& transport) {
    if (++turns_ <= kSpins) return;
    if (turns_ == kSpins + 1) since_ = Clock::now();
    if (Clock::now() - since_ < kYieldFor) {
      sched_yield();
    } else {
      transport.idle(sleep_);
      sleep_ = std::min(sleep_ * 2, std::chrono::microseconds(kLongestSleep));
    }
  }

 private:
  int turns_ = 0;
  Clock::time_point since_;
  std::chrono::microseconds sleep_ = kShortestSleep;
};

// Runs part of a call; errors, including connection errors, name the call.
template <class Step>
auto named(const Call& call, Step step) {
  try {
    return step();
  } catch (const Interrupted& death) {
    throw Interrupted(fmt::format("{}: {}", call.text(), death.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", call.text(), error.what()));
  }
}

}  // namespace

std::string Call::text() const {
  return call_text(group->name, kind, number, peer < 0 ? -1 : group->ranks[static_cast<size_t>(peer)]);
}

Operation::Operation(Operations& owner, Call call, std::vector<Stage> stages)
    : owner_(owner.shared_from_this()), call_(std::move(call)), stages_(std::move(stages)) {}

Tag Operation::tag(int member) const {
  // Stages need no separate tags: both ranks run them in the same order, and messages with one tag stay in order. For
  // the same reason the number may wrap around. Send and receive match by order alone.
  constexpr uint32_t kPointToPoint = Tag::kMessages - 1;
  return {call_.group->channels[static_cast<size_t>(member)],
          call_.peer < 0 ? static_cast<uint32_t>(call_.number % kPointToPoint) : kPointToPoint};
}

void Operation::send(int member, std::span<const std::byte> bytes) {
  transfers_.push_back(owner_->transport().send(call_.group->ranks[static_cast<size_t>(member)], tag(member), bytes));
}

void Operation::receive(int member, std::span<std::byte> bytes) {
  transfers_.push_back(
      owner_->transport().receive(call_.group->ranks[static_cast<size_t>(member)], tag(member), bytes));
}

std::span<std::byte> Operation::scratch(size_t bytes) {
  const Scratch& taken = scratch_.emplace_back(owner_->take_scratch(bytes));
  return {taken.memory.get(), bytes};
}

bool Operation::advance() {
  if (error_) std::rethrow_exception(error_);
  if (done_) return true;
  try {
    const bool over = named(call_, [&] {
      while (true) {
        for (; !transfers_.empty(); transfers_.pop_back())
          if (!transfers_.back()->test()) return false;
        if (next_stage_ == stages_.size()) return true;
        stages_[next_stage_++](*this);
      }
    });
    if (!over) return false;
  } catch (const Error&) {
    error_ = std::current_exception();
    owner_->failed_.push_back(shared_from_this());
    throw;
  }
  done_ = true;
  stages_.clear();  // releases the tensors that they hold
  for (Scratch& buffer : scratch_) owner_->free_scratch_.push_back(std::move(buffer));
  scratch_.clear();
  return true;
}

bool Operation::test() {
  if (error_) std::rethrow_exception(error_);
  if (!done_) owner_->progress(*this);
  return done_;
}

void Operation::wait() {
  if (error_) std::rethrow_exception(error_);
  if (!done_) owner_->wait(*this);
}

Operations::Operations(std::unique_ptr<Transport> transport, std::chrono::milliseconds timeout)
    : transport_(std::move(transport)), timeout_(timeout) {}

Event Operations::start(Call call, std::vector<Operation::Stage> stages) {
  auto operation = std::make_shared<Operation>(*this, std::move(call), std::move(stages));
  if (operation->advance()) return {};
  active_.push_back(operation);
  return Event(operation);
}

void Operations::progress() {
  if (!active_.empty()) progress(*std::shared_ptr<Operation>(active_.front()));
}

void Operations::progress(const Operation& wanted) {
  named(wanted.call(), [&] { transport_->progress(); });
  // Removes completed and failed operations; the rest keep their order.
  for (size_t i = 0; i < active_.size();) {
    const std::shared_ptr<Operation> operation = active_[i];
    bool over = true;
    const auto leave = [&] {
      if (over) active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    };
    try {
      over = operation->advance();
    } catch (...) {
      leave();
      throw;
    }
    leave();
    if (!over) ++i;
  }
}

void Operations::wait(Operation& operation) {
  Backoff backoff;
  StallInquiry inquiry;
  const auto begin = Clock::now();
  auto listen_at = begin + kListenEvery, give_up_at = Clock::time_point::max();
  const Call& call = operation.call();
  while (!operation.test()) {
    named(call, [&] { backoff.pause(*transport_); });
    const auto now = Clock::now();
    if (now < listen_at) continue;
    listen_at = now + kListenEvery;
    const std::string mine = call.text();
    const auto& ranks = call.group->ranks;
    named(call, [&] { inquiry.listen(*transport_, mine); });
    if (now - begin < timeout_) continue;
    if (give_up_at == Clock::time_point::max()) {
      named(call, [&] { inquiry.ask(*transport_, ranks, mine); });
      give_up_at = now + kAnswerWithin;
    }
    // The whole job answers; only ranks of this group count.
    const auto answered = [&](int rank) { return rank == transport_->rank() || inquiry.answers().contains(rank); };
    if (now < give_up_at && !std::all_of(ranks.begin(), ranks.end(), answered)) continue;
    fail("{}", stall_message(mine, call.bytes, timeout_, ranks, transport_->rank(), inquiry.answers()));
  }
}

void Operations::close() {
  while (!active_.empty()) wait(*std::shared_ptr<Operation>(active_.front()));
  transport_->close();
}

Scratch Operations::take_scratch(size_t bytes) {
  // The smallest buffer that fits, unless most of it would be unused: small sums leave large buffers to those that need
  // them.
  auto best = free_scratch_.end();
  for (auto it = free_scratch_.begin(); it != free_scratch_.end(); ++it)
    if (it->bytes >= bytes && it->bytes - bytes <= bytes && (best == free_scratch_.end() || it->bytes < best->bytes))
      best = it;
  if (best == free_scratch_.end()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  Scratch found = std::move(*best);
  free_scratch_.erase(best);
  return found;
}

}  // namespace partita::internal
