#include "partita/comm/cuda/nccl_communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "partita/base/cuda_error.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/comm/arguments.h"
#include "partita/comm/cuda/nccl_calls.h"
#include "partita/comm/world.h"

namespace partita::internal {
namespace {

// How long the watchdog waits for a thread blocked inside NCCL before it ends the job.
constexpr std::chrono::seconds kAbortGrace{10};

// The end of a collective; waiting for it on the host also reports failures.
class CollectiveEvent final : public CudaEventState {
 public:
  CollectiveEvent(c10::DeviceIndex device, std::shared_ptr<Watchdog> watchdog)
      : CudaEventState(device), watchdog_(std::move(watchdog)) {}
  bool test() override {
    if (watchdog_) watchdog_->check();
    return CudaEventState::test();
  }
  // Also returns when the watchdog has aborted a hanging collective.
  void wait() override {
    CudaEventState::wait();
    if (watchdog_) watchdog_->check();
  }

 private:
  std::shared_ptr<Watchdog> watchdog_;
};

}  // namespace

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> host, const Options& options)
    : host_(std::move(host)),
      options_(options),
      stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)),
      copies_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)),
      messages_(std::make_shared<Messages>(*this)),
      sent_to_(static_cast<size_t>(host_->size())),
      received_from_(static_cast<size_t>(host_->size())),
      exceptions_(std::uncaught_exceptions()) {
  if (size() == 1) return;
  ncclUniqueId id{};
  if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  at::Tensor text = at::empty({static_cast<int64_t>(sizeof id)}, at::kByte);
  std::memcpy(text.mutable_data_ptr(), &id, sizeof id);
  CpuStream host_stream;
  host_->broadcast(text, 0, host_stream).wait();
  std::memcpy(&id, text.const_data_ptr(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = host_->name().c_str();
  check(ncclCommInitRankConfig(&comm_, size(), id, rank(), &config), "ncclCommInitRank");
  const Watchdog::Backend backend{
      .error =
          [this] {
            const std::unique_lock lock(mutex_, std::try_to_lock);  // busy: the watchdog asks again soon
            ncclResult_t state = ncclSuccess;
            if (!lock || comm_ == nullptr || ncclCommGetAsyncError(comm_, &state) != ncclSuccess) return std::string();
            if (state == ncclSuccess || state == ncclInProgress) return std::string();
            return fmt::format("NCCL: {}: {}", ncclGetErrorString(state), ncclGetLastError(comm_));
          },
      .abort = [this] { abort(); }};
  watchdog_ = std::make_shared<Watchdog>(name(), rank(), size(), options_.timeout, backend);
}

NcclCommunicator::~NcclCommunicator() {
  messages_->close();
  if (!watchdog_) return;
  const bool in_order = std::uncaught_exceptions() == exceptions_;
  if (in_order) {  // the watchdog ends what hangs
    (void)cudaStreamSynchronize(stream_.stream());
    (void)cudaStreamSynchronize(copies_.stream());
    close_memory();
  }
  watchdog_->stop();  // outstanding events keep it alive
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;  // aborted
  (void)(in_order ? ncclCommDestroy(comm_) : ncclCommAbort(comm_));
  comm_ = nullptr;
}

void NcclCommunicator::close_memory() {
  try {
    for (std::unique_ptr<PeerMemory>* own : {&room_, &rows_})
      if (*own) PeerMemory::close(std::move(*own), *host_);
    for (Shared& s : shared_) PeerMemory::close(std::move(s.memory), *host_);
  } catch (const std::exception&) {  // the others have ended
  }
}

void NcclCommunicator::abort() {
  if (waits_for_flags_) World::abort(1);  // nothing ends a stream that waits for another rank's flag
  const std::unique_lock lock(mutex_, kAbortGrace);
  if (!lock) World::abort(1);  // a thread is blocked inside NCCL
  if (comm_ != nullptr) (void)ncclCommAbort(comm_);
  comm_ = nullptr;
}

void NcclCommunicator::check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail("{}.{} on rank {} of {} failed: {} (NCCL: {}: {})", name(), call, rank(), size(), explain_library_text("NCCL"),
       ncclGetErrorString(result), ncclGetLastError(comm_));
}

std::shared_ptr<CudaEventState> NcclCommunicator::finish(const Watchdog::Call& call, const CudaStream& on) {
  const auto end = std::make_shared<CollectiveEvent>(on.stream().device_index(), watchdog_);
  end->record(on.stream());
  // The watchdog gets an event of the base class, which does not query the watchdog itself.
  if (watchdog_ && !is_capturing(on.stream())) {
    auto watched = std::make_shared<CudaEventState>(on.stream().device_index());
    watched->record(on.stream());
    watchdog_->add(call, std::move(watched));
  }
  return end;
}

PeerMemory* NcclCommunicator::shared_by(const at::Tensor& tensor) const {
  if (tensor.numel() == 0 || is_capturing(c10::cuda::getCurrentCUDAStream().stream())) return nullptr;
  const auto found = std::ranges::find_if(shared_, [&](const Shared& s) { return s.memory->contains(data(tensor)); });
  return found == shared_.end() ? nullptr : found->memory.get();
}

std::unique_ptr<PeerMemory> NcclCommunicator::create_memory(int64_t bytes) {
  if (size() == 1 || !reaches_peers_) return nullptr;
  waits_for_flags_ = true;
  auto memory = PeerMemory::create(*host_, bytes);
  reaches_peers_ = memory != nullptr;
  if (!reaches_peers_)
    log::debug("{}: NCCL makes all collectives: the GPUs of its {} ranks cannot write into each other's memory", name(),
               size());
  return memory;
}

std::vector<const void*> NcclCommunicator::to_all(const void* sent) const {
  return std::vector<const void*>(static_cast<size_t>(size()), sent);
}

Event NcclCommunicator::all_gather(at::Tensor full, at::Tensor slice, Stream& stream) {
  if (full.is_cpu()) return host_->all_gather(full, slice, stream);
  check_all_gather(*this, full, slice, at::kCUDA);
  const size_t bytes = slice.nbytes();
  if (PeerMemory* shared = shared_by(full)) {
    messages_->post();
    const Watchdog::Call call{"all_gather", calls_++, static_cast<int64_t>(full.nbytes())};
    return run_copies(call, stream, [&](cudaStream_t copies) {
      copy(data(full) + static_cast<size_t>(rank()) * bytes, data(slice), bytes, copies);
      shared->exchange(data(full) - shared->data(), static_cast<int64_t>(bytes), to_all(data(slice)), copies);
    });
  }
  return run("all_gather", full, stream, [&] {
    if (size() == 1) return copy(data(full), data(slice), bytes, stream_.stream());
    check(ncclAllGather(data(slice), data(full), bytes, ncclUint8, comm_, stream_.stream()), "all_gather");
  });
}

Event NcclCommunicator::all_to_all(at::Tensor out, at::Tensor in, Stream& stream) {
  if (out.is_cpu()) return host_->all_to_all(out, in, stream);
  check_all_to_all(*this, out, in, at::kCUDA);
  return run("all_to_all", in, stream, [&] {
    const size_t bytes = in.nbytes() / static_cast<size_t>(size());
    const auto part_of = [bytes](std::byte* whole) {
      return [=](int peer) { return Bytes{whole + static_cast<size_t>(peer) * bytes, bytes}; };
    };
    const auto to = part_of(data(out)), from = part_of(data(in));
    copy(to(rank()).data, from(rank()).data, bytes, stream_.stream());
    if (size() > 1) exchange(to, from);
  });
}

Event NcclCommunicator::broadcast(at::Tensor tensor, int root, Stream& stream) {
  if (tensor.is_cpu()) return host_->broadcast(tensor, root, stream);
  check_peer(*this, "broadcast", "root", root);
  check_tensor(*this, "broadcast", tensor, at::kCUDA);
  return run("broadcast", tensor, stream, [&] {
    if (size() > 1)
      check(ncclBroadcast(data(tensor), data(tensor), tensor.nbytes(), ncclUint8, root, comm_, stream_.stream()),
            "broadcast");
  });
}

Event NcclCommunicator::message(bool sends, const at::Tensor& tensor, int peer, Stream& stream) {
  const char* kind = sends ? "send" : "receive";
  check_other(*this, kind, sends ? "to" : "from", peer);
  check_tensor(*this, kind, tensor, at::kCUDA);
  watchdog_->check();
  int64_t& count = (sends ? sent_to_ : received_from_)[static_cast<size_t>(peer)];
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  const Watchdog::Call call{kind, count++, bytes, peer};
  if (room_)
    return run_copies(call, stream, [&](cudaStream_t copies) {
      sends ? room_->put(tensor.const_data_ptr(), bytes, copies)
            : room_->take(tensor.mutable_data_ptr(), bytes, copies);
    });
  stream_.wait(stream.record());
  return messages_->add(sends, tensor, peer, call);
}

Event NcclCommunicator::send(at::Tensor tensor, int to, Stream& stream) {
  return tensor.is_cpu() ? host_->send(tensor, to, stream) : message(true, tensor, to, stream);
}

Event NcclCommunicator::receive(at::Tensor tensor, int from, Stream& stream) {
  return tensor.is_cpu() ? host_->receive(tensor, from, stream) : message(false, tensor, from, stream);
}

Event NcclCommunicator::exchange(at::Tensor out, const std::vector<at::Tensor>& sent, Stream& stream) {
  if (out.is_cpu()) return host_->exchange(out, sent, stream);
  check_exchange(*this, out, sent, at::kCUDA);
  const size_t bytes = out.nbytes() / sent.size();
  PeerMemory* const shared = shared_by(out);
  if (shared == nullptr)
    return run("exchange", out, stream, [&] {
      exchange(
          [&](int peer) {
            return Bytes{data(out) + static_cast<size_t>(peer) * bytes, bytes};
          },
          [&](int peer) {
            return Bytes{data(sent[static_cast<size_t>(peer)]), bytes};
          });
    });
  std::vector<const void*> from;
  for (int r = 0; r < size(); ++r)
    from.push_back(r == rank() ? nullptr : sent[static_cast<size_t>(r)].const_data_ptr());
  messages_->post();
  const Watchdog::Call call{"exchange", calls_++, static_cast<int64_t>(out.nbytes())};
  return run_copies(call, stream, [&](cudaStream_t copies) {
    shared->exchange(data(out) - shared->data(), static_cast<int64_t>(bytes), from, copies);
  });
}

at::Tensor NcclCommunicator::shared_memory(int64_t bytes, at::Device device) {
  if (device.is_cpu()) return host_->shared_memory(bytes, device);
  const at::TensorOptions options = at::TensorOptions(at::kByte).device(device);
  for (const Shared& s : shared_)  // the same one on all ranks, which run the same program
    if (s.tensor.storage().use_count() == 1 && s.memory->bytes() >= bytes) return s.tensor.narrow(0, 0, bytes);
  messages_->post();
  auto memory = create_memory(bytes);
  if (!memory) return at::empty({bytes}, options);
  // The device is given: from_blob asks CUDA for it, which fails for no bytes.
  const at::Tensor tensor = at::from_blob(
      memory->data(), {bytes}, [](void*) {}, options, device);
  shared_.push_back({std::move(memory), tensor});
  return tensor;
}

int64_t NcclCommunicator::reserve_messages(int64_t bytes, bool receives) {
  PARTITA_CHECK(size() == 2, "messages of {} ranks", size());
  messages_->post();
  if (room_ && room_->message_bytes() >= bytes) return room_->bytes();  // both ranks ask for the same
  if (room_) PeerMemory::close(std::move(room_), *host_);
  waits_for_flags_ = true;
  room_ = PeerMemory::create(*host_, receives ? 2 * bytes : 0, bytes);
  return room_ ? room_->bytes() : 0;
}

void NcclCommunicator::progress() {
  messages_->post();
  host_->progress();
}

void NcclCommunicator::barrier() {
  messages_->post();
  host_->barrier();
}

}  // namespace partita::internal
