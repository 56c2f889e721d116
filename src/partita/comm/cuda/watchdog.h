// Watches the collectives of a device communicator. The host does not wait for them, so a background thread checks that
// they finish; if one does not, it is reported, the communicator is aborted, and the job ends.
//
//   Watchdog watchdog("dp", 0, 2, 600s, {.error = ..., .abort = ...});
//   {
//     const Watchdog::Posting posting(&watchdog, call);     // the call itself may hang too
//     ncclReduceScatter(...);
//   }
//   watchdog.add(call, event);                              // recorded after it
//   watchdog.check();                                       // rethrows what the thread found
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
  // One collective; shown as call_text (comm/call_text.h) says it.
  struct Call {
    const char* kind = "";
    int64_t number = 0, bytes = 0;
    int peer = -1;
  };
  struct Backend {
    std::function<std::string()> error;  // an error that the backend detected itself, or empty
    // Releases its blocked kernels, or ends the job where it cannot; may be called concurrently with other calls.
    std::function<void()> abort;
  };

  // A collective's timeout starts at the end of the previous one, or at its own start if that is later.
  Watchdog(std::string group, int rank, int size, std::chrono::milliseconds timeout, Backend backend);
  ~Watchdog();

  // Scope in which the calling thread enqueues a collective. watchdog null: not watched.
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
  // Rethrows a detected error; the communicator is unusable afterwards.
  void check();
  // Stops watching; the backend may then be destroyed.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Call call;
    std::shared_ptr<CudaEventState> end;
    Clock::time_point since;
  };

  void run();
  // The current problem, or empty. The caller holds the lock.
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
  std::optional<Entry> posting_;               // has no end event yet
  Clock::time_point progress_ = Clock::now();  // when one last finished
  std::string failure_;
  bool noticed_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace partita::internal
