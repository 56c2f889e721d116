#include "partita/train/checkpoint_saver.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/free_memory.h"
#include "partita/base/log.h"
#include "partita/device/current_device.h"
#include "partita/device/host_memory.h"

namespace partita::internal {

bool fits_in_background(Switch background, int64_t snapshot_bytes, int64_t free) {
  if (background != Switch::automatic) return background == Switch::on;
  return snapshot_bytes <= free / 2;
}

int writer_turn(int local_rank, int64_t writers) { return writers > 0 ? static_cast<int>(local_rank / writers) : 0; }

// A save in the background, and the time that training has waited for it.
struct CheckpointSaver::Running final : EventState {
  at::Tensor memory;                   // of the copy
  std::optional<BackgroundSave> save;  // empty: it is over
  SaveMetrics metrics;
  double begin_seconds = 0;  // from the stop of training until the save began

  // As an event: what is saved has been copied.
  bool test() override { return !save || save->is_copied(); }
  void wait() override {
    if (!save) return;
    const Timer timer;
    save->wait_copied();
    metrics.stall_seconds += timer.seconds();
  }
};

CheckpointSaver::CheckpointSaver(Options options, Communicator& ranks) : options_(std::move(options)), peers_(ranks) {
  if (options_.checkpoint.writers > 0)
    for (const std::string& turn : agree(
             peers_, [this] { return std::to_string(writer_turn(options_.local_rank, options_.checkpoint.writers)); }))
      turns_ = std::max(turns_, std::stoi(turn) + 1);
}

// Whatever still waits for the event must not keep the thread, which reads memory that others own.
CheckpointSaver::~CheckpointSaver() {
  if (running_) running_->save.reset();
}

SaveOptions CheckpointSaver::save_options() const {
  return {.retention = retention_of(options_.checkpoint),
          .turn = writer_turn(options_.local_rank, options_.checkpoint.writers),
          .turns = turns_,
          .enter = device_of_this_thread()};
}

bool CheckpointSaver::prepare_memory(const CheckpointContents& contents) {
  if (options_.checkpoint.background == Switch::off) return false;
  const int64_t bytes = std::max<int64_t>(internal::snapshot_bytes(contents), 1);
  // Ranks of one machine must not all count the same free memory: they ask first, and allocate then.
  const std::vector<std::string> fits = agree(peers_, [&] {
    if (memory_.defined() && memory_.numel() >= bytes) return std::string("has");
    const int64_t free = free_for_process(memory_limits(), options_.local_ranks).bytes + snapshot_bytes();
    return std::string(fits_in_background(options_.checkpoint.background, bytes, free) ? "fits" : "");
  });
  bool all = std::ranges::none_of(fits, &std::string::empty);
  if (all) {
    const std::vector<std::string> allocated = agree(peers_, [&]() -> std::string {
      if (memory_.defined() && memory_.numel() >= bytes) return "has";
      memory_.reset();
      try {
        memory_ = pinned_bytes(bytes, options_.device);
      } catch (const std::exception&) {
        return "";
      }
      return "has";
    });
    all = std::ranges::none_of(allocated, &std::string::empty);
  }
  if (!all) memory_.reset();
  if (!all && !std::exchange(told_, true) && peers_.rank() == 0)
    log::info("checkpoints are written while training waits: a copy of what is saved ({} on this rank) does not fit{}",
              human_bytes(bytes),
              options_.checkpoint.background == Switch::automatic ? " into half of the free memory" : " into memory");
  return all;
}

void CheckpointSaver::count_buffers(const CheckpointContents& contents) {
  int64_t bytes = 0;
  for (const Piece& piece : contents.pieces) bytes += bytes_of(contents, piece);
  buffer_bytes_ = std::max(buffer_bytes_, AtomicFile::buffer_bytes(bytes));
}

std::optional<SaveMetrics> CheckpointSaver::begin(int64_t step, CheckpointContents contents,
                                                  const std::function<void(Event)>& hold_updates, const Timer& since) {
  PARTITA_CHECK(!is_running(), "a save has begun before the last one is complete");
  if (!prepare_memory(contents)) return save_now(step, contents, since);
  count_buffers(contents);
  auto running = std::make_shared<Running>();
  running->metrics = {.step = step, .in_background = true};
  running->begin_seconds = since.seconds();
  running->memory = memory_;
  running->save.emplace(
      options_.root, step, std::move(contents),
      std::span(reinterpret_cast<std::byte*>(memory_.data_ptr()), static_cast<size_t>(memory_.numel())), peers_,
      save_options());
  running->metrics.stall_seconds = since.seconds();
  running_ = std::move(running);
  hold_updates(Event(running_));
  return std::nullopt;
}

bool CheckpointSaver::is_idle() const { return !running_ || running_->save->is_idle(); }

std::optional<SaveMetrics> CheckpointSaver::advance() {
  return go_on([this] { return running_->save->advance(peers_); });
}

std::optional<SaveMetrics> CheckpointSaver::finish() {
  return go_on([this] {
    running_->save->finish(peers_);
    return true;
  });
}

std::optional<SaveMetrics> CheckpointSaver::go_on(const std::function<bool()>& phase) {
  if (!running_) return std::nullopt;
  const Timer timer;
  bool complete = false;
  try {
    complete = phase();
  } catch (...) {
    std::exchange(running_, nullptr)->save.reset();
    throw;
  }
  running_->metrics.stall_seconds += timer.seconds();
  if (!complete) return std::nullopt;
  SaveMetrics done = running_->metrics;
  done.folder = running_->save->folder();
  done.bytes = running_->save->bytes();
  done.copy_seconds = running_->save->copy_seconds();
  done.seconds = running_->begin_seconds + running_->save->durable_seconds();
  std::exchange(running_, nullptr)->save.reset();  // the event may live on
  return done;
}

SaveMetrics CheckpointSaver::save_now(int64_t step, const CheckpointContents& contents, const Timer& since) {
  count_buffers(contents);
  SavePhases save(options_.root, step, contents, peers_, save_options());
  save.run(contents, peers_);
  return {.folder = save.folder(),
          .step = step,
          .bytes = save.bytes(),
          .seconds = since.seconds(),
          .stall_seconds = since.seconds()};
}

}  // namespace partita::internal
