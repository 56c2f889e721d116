// An order-preserving pipeline: one thread produces tasks and consumes results, several threads work in between.
//
//   ordered_parallel(workers,
//                    [&]() -> std::optional<Chunk> { return reader.next(); },           // on the calling thread
//                    [&](int worker, Chunk chunk) { return tokenize(worker, chunk); },  // on worker 0 .. workers-1
//                    [&](Tokens tokens) { writer.add(tokens); });                       // on the calling thread
//
// Results are consumed in task order, so the output does not depend on the number of workers. At most 2 x workers tasks
// are in flight, so memory is bounded. An exception in any of the three functions ends the pipeline and is rethrown
// here; a worker's exception when its task's turn comes.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace partita::internal {

template <class Produce, class Work, class Consume>
void ordered_parallel(int workers, Produce produce, Work work, Consume consume) {
  using Task = typename std::invoke_result_t<Produce&>::value_type;
  using Result = std::invoke_result_t<Work&, int, Task>;
  struct Job {
    Task task;
    std::optional<Result> result;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable task_ready, result_ready;
  std::deque<std::shared_ptr<Job>> waiting;    // for a worker
  std::deque<std::shared_ptr<Job>> under_way;  // waiting, running or done, in order
  bool stop = false;

  const auto run_worker = [&](int worker) {
    for (;;) {
      std::unique_lock lock(mutex);
      task_ready.wait(lock, [&] { return stop || !waiting.empty(); });
      if (stop) return;
      const std::shared_ptr<Job> job = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      std::optional<Result> result;
      std::exception_ptr error;
      try {
        result.emplace(work(worker, std::move(job->task)));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      job->result = std::move(result);
      job->error = error;
      result_ready.notify_one();
    }
  };
  std::vector<std::jthread> threads;
  struct Stopper {  // destroyed before the threads are joined
    decltype(mutex)& guard;
    decltype(task_ready)& wake;
    bool& flag;
    ~Stopper() {
      const std::lock_guard lock(guard);
      flag = true;
      wake.notify_all();
    }
  } stopper{mutex, task_ready, stop};
  for (int worker = 0; worker < workers; ++worker) threads.emplace_back(run_worker, worker);

  bool more = true;
  while (more || !under_way.empty()) {
    while (more && under_way.size() < 2 * static_cast<size_t>(workers)) {
      auto task = produce();
      if (!task) {
        more = false;
        break;
      }
      auto job = std::make_shared<Job>(Job{std::move(*task), std::nullopt, nullptr});
      under_way.push_back(job);
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(job));
      task_ready.notify_one();
    }
    if (under_way.empty()) break;
    const std::shared_ptr<Job> job = std::move(under_way.front());
    under_way.pop_front();
    {
      std::unique_lock lock(mutex);
      result_ready.wait(lock, [&] { return job->result || job->error; });
    }
    if (job->error) std::rethrow_exception(job->error);
    consume(std::move(*job->result));
  }
}

}  // namespace partita::internal
