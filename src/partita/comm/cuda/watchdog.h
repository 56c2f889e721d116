// Watches the collectives of a communicator on a device. The host does not wait for them, so a thread of its own looks
// whether they end: one that does not is named, the communicator is aborted, and the job ends.
//
//   Watchdog watchdog("dp", 0, 2, 600s, {.error = ..., .abort = ...});
//   {
//     const Watchdog::Posting posting(&watchdog, call);     // the call itself may hang too
//     ncclReduceScatter(...);
//   }
//   watchdog.add(call, event);                              // recorded behind it
//   watchdog.check();                                      // throws what the thread found
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "partita/device/cuda/stream.h"

namespace partita::internal {

class Watchdog {
 public:
  // One collective; messages say "dp.reduce_scatter #17", or "pp.send #3 with rank 1".
  struct Call {
    const char* kind = "";
    int64_t number = 0, bytes = 0;
    int peer = -1;
  };
  struct Backend {
    std::function<std::string()> error;  // what it knows to be wrong by itself, or nothing
    std::function<void()> abort;         // lets go of what its kernels wait for; may be called while others use it
  };

  // The timeout of a collective counts from the end of the one before it, or from its own start if that is later.
  Watchdog(std::string group, int rank, int size, std::chrono::milliseconds timeout, Backend backend);
  ~Watchdog();

  // While it lives, the calling thread is giving a collective to the device. Null: nobody watches.
  class Posting {
   public:
    Posting(Watchdog* watchdog, const Call&);
    ~Posting();
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;

   private:
    Watchdog* watchdog_;
  };

  void add(const Call&, std::shared_ptr<CudaEventState> end);
  // Error: what went wrong. After that the communicator is of no use.
  void check();
  // Watches no longer: the backend may go.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Call call;
    std::shared_ptr<CudaEventState> end;
    Clock::time_point since;
  };

  void run();
  // What is wrong now, or nothing. The caller holds the lock.
  [[nodiscard]] std::string look();
  [[nodiscard]] bool is_late(const Entry&) const;
  [[nodiscard]] std::string text(const Call&) const;
  void fail_with(std::string message, std::unique_lock<std::mutex>& lock);

  std::string group_;
  int rank_, size_, device_;
  std::chrono::milliseconds timeout_;
  Backend backend_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::optional<Entry> posting_;               // without an end
  Clock::time_point progress_ = Clock::now();  // when one was last seen to end
  std::string failure_;
  bool noticed_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace partita::internal
