// Checks NCCL collectives against those of the host, which add in the same order, then times them. Each rank uses the
// device of its local rank.
//
//   RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29600 nccl_check &
//   RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29600 nccl_check
//   nccl_check hang      # instead: rank 1 skips a collective, and the other ranks' watchdog names it
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "partita/base/cuda_error.h"
#include "partita/base/log.h"
#include "partita/comm/cuda/nccl_communicator.h"
#include "partita/comm/pipeline_edges.h"
#include "partita/comm/world.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;

constexpr at::ScalarType kDTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble,
                                      at::kInt,   at::kLong,     at::kByte};

class Check {
 public:
  Check(Communicator& host, NcclCommunicator& device) : host_(host), device_(device) {}

  void all() {
    try {
      self_check(device_, at::kCUDA, stream_);
      add(true, "self_check");
    } catch (const std::exception& error) {
      add(false, error.what());
    }
    for (const at::ScalarType dtype : kDTypes)
      for (const int64_t n : {0, 1, 5, 8, 1000, 4099, 65536, 300'007}) {
        gather(dtype, n);
        exchange(dtype, n);
        scatter(dtype, dtype, n);
        if (dtype == at::kBFloat16 || dtype == at::kHalf) scatter(at::kFloat, dtype, n);
        reduce(dtype, Reduce::sum, n);
        reduce(dtype, Reduce::max, n);
        broadcast(dtype, n);
        exchange_rows(dtype, n, false);
        exchange_rows(dtype, n, true);
      }
    for (const at::ScalarType dtype : kDTypes)
      for (const int64_t n : {48, 30'720, 98'304, 49'152}) by_copies(dtype, n);
    growing();
    ring(5);
    ring(3'000'000);
    order();
    errors();
    texts();
  }

  // Messages of unlike sizes through room that two ranks have made: they arrive in order, and sends do not wait.
  void messages(NcclCommunicator& pair) {
    const int other = 1 - pair.rank();
    (void)pair.reserve_messages(1 << 20, true);
    bool same = true;
    for (int round = 0; round < 10; ++round) {
      std::vector<at::Tensor> sent, got;
      std::vector<Event> events;
      for (int i = 0; i < 7; ++i) {
        const int64_t n = 1 + (i * 37'003 + round * 11) % 262'144;
        sent.push_back(at::full({n}, 100.0 * pair.rank() + 10 * i + round, busy_.options()));
        got.push_back(at::zeros({n}, busy_.options()));
        if (round % 2 == pair.rank()) (void)busy_.matmul(busy_);
        events.push_back(pair.send(sent.back(), other, stream_));
        events.push_back(pair.receive(got.back(), other, stream_));
      }
      for (const Event& event : events) stream_.wait(event);
      for (int i = 0; i < 7; ++i)
        same = same && got[static_cast<size_t>(i)].eq(100.0 * other + 10 * i + round).all().item<bool>();
    }
    add(same, "messages through reserved room");
  }

  // With more room, and at the end each rank waits for the other, whatever it sent last.
  void edges(const PipelineEdges& edges) {
    const int other = 1 - host_.rank();
    for (const int64_t n : {1000, 100'000, 1000}) {
      (void)edges.reserve(4 * n, false);
      const at::Tensor sent = at::full({n}, 10.0 * host_.rank() + 1, busy_.options()), got = at::zeros_like(sent);
      // In an order in which they could also run one after another: their streams may share a queue of the hardware.
      const Event left = edges.send(sent, other, stream_), arrived = edges.receive(got, other, stream_);
      stream_.wait(arrived);
      stream_.wait(left);
      add(got.eq(10.0 * other + 1).all().item<bool>(), fmt::format("pipeline edges [{}]", n));
    }
  }

  [[nodiscard]] int finish() const {
    fmt::print("rank {}: {} passed, {} failed\n", host_.rank(), passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void add(bool passed, const std::string& name) {
    (passed ? passed_ : failed_) += 1;
    if (passed) return;
    fmt::print("FAIL rank {} of {}: {}\n", host_.rank(), host_.size(), name);
    std::fflush(stdout);  // what comes next may hang
  }
  void expect_same(const std::string& name, const at::Tensor& found, const at::Tensor& expected) {
    const at::Tensor on_host = found.cpu();
    add(std::memcmp(on_host.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()) == 0,
        fmt::format("{} {} [{}]", name, c10::toString(expected.scalar_type()), expected.numel()));
  }
  [[nodiscard]] static at::Tensor random(at::ScalarType dtype, int64_t n) {
    return (at::randn({n}, at::TensorOptions(at::kFloat)) * 20).abs().to(dtype);
  }
  [[nodiscard]] static at::Tensor blank(at::ScalarType dtype, int64_t n) {
    return at::full({n}, 77, at::TensorOptions(dtype));
  }

  void gather(at::ScalarType dtype, int64_t n) {
    const at::Tensor slice = random(dtype, n), full = blank(dtype, n * size());
    host_.all_gather(full, slice, cpu_).wait();
    const at::Tensor on_full = full.cuda().zero_();
    stream_.wait(device_.all_gather(on_full, slice.cuda(), stream_));
    expect_same("all_gather", on_full, full);
    // In place.
    const at::Tensor again = blank(dtype, n * size()).cuda(), mine = again.narrow(0, n * host_.rank(), n);
    mine.copy_(slice);
    stream_.wait(device_.all_gather(again, mine, stream_));
    expect_same("all_gather in place", again, full);
  }

  void exchange(at::ScalarType dtype, int64_t n) {
    const at::Tensor in = random(dtype, n * size()), out = blank(dtype, n * size());
    host_.all_to_all(out, in, cpu_).wait();
    const at::Tensor on_in = in.cuda(), on_out = blank(dtype, n * size()).cuda();
    stream_.wait(device_.all_to_all(on_out, on_in, stream_));
    expect_same("all_to_all", on_out, out);
  }

  // Twenty in a row over the same memory, behind work that delays one rank, with and without memory that ranks share.
  void exchange_rows(at::ScalarType dtype, int64_t n, bool shared) {
    if (n == 0) return;
    const int64_t bytes = n * size() * static_cast<int64_t>(at::elementSize(dtype));
    const at::Tensor memory = shared ? device_.shared_memory(bytes, at::Device(at::kCUDA, c10::cuda::current_device()))
                                     : at::empty({bytes}, at::TensorOptions(at::kByte).device(at::kCUDA));
    const at::Tensor out = memory.view(dtype).view({size(), n});
    bool same = true;
    for (int i = 0; i < 20; ++i) {
      if (i % 5 == host_.rank()) (void)busy_.matmul(busy_);
      std::vector<at::Tensor> sent, on_device;
      for (int r = 0; r < size(); ++r) {
        sent.push_back(random(dtype, n));
        on_device.push_back(sent.back().cuda());
      }
      const at::Tensor expected = blank(dtype, n * size()).view({size(), n});
      out.copy_(expected);  // this rank's own row stays
      host_.exchange(expected, sent, cpu_).wait();
      stream_.wait(device_.exchange(out, on_device, stream_));
      same = same && at::equal(out.cpu(), expected);
    }
    add(same, fmt::format("exchange{} {} [{}]", shared ? " in shared memory" : "", c10::toString(dtype), n));
  }

  void scatter(at::ScalarType to, at::ScalarType from, int64_t n) {
    const at::Tensor full = random(from, n * size()), slice = blank(to, n);
    host_.reduce_scatter(slice, full, cpu_).wait();
    const at::Tensor on_full = full.cuda(), on_slice = blank(to, n).cuda();
    stream_.wait(device_.reduce_scatter(on_slice, on_full, stream_));
    expect_same(fmt::format("reduce_scatter from {}", c10::toString(from)), on_slice, slice);
    expect_same("reduce_scatter leaves full", on_full, full);
  }

  void reduce(at::ScalarType dtype, Reduce kind, int64_t n) {
    const at::Tensor tensor = random(dtype, n), on_device = tensor.cuda();
    host_.all_reduce(tensor, kind, cpu_).wait();
    stream_.wait(device_.all_reduce(on_device, kind, stream_));
    expect_same(kind == Reduce::sum ? "all_reduce sum" : "all_reduce max", on_device, tensor);
  }

  // Sums and gathers of n elements a rank in memory that ranks share, from two streams that do not wait for each other,
  // behind work that delays one rank.
  void by_copies(at::ScalarType dtype, int64_t n) {
    const int64_t count = n * size();
    const auto shared = [&] {
      const auto bytes = count * static_cast<int64_t>(at::elementSize(dtype));
      return device_.shared_memory(bytes, at::Device(at::kCUDA, c10::cuda::current_device())).view(dtype);
    };
    const at::Tensor gathers = shared(), in_place = shared(), sums = shared();
    bool gathered = true, gathered_in_place = true, summed = true, scattered = true;
    for (int i = 0; i < 10; ++i) {
      const at::Tensor slice = random(dtype, n), all = blank(dtype, count), full = random(dtype, count),
                       part = blank(dtype, n), on_slice = slice.cuda(), on_full = full.cuda(), on_part = part.cuda();
      sums.copy_(full);
      const at::Tensor own = in_place.narrow(0, n * host_.rank(), n);
      own.copy_(slice);
      other_.wait(stream_.record());
      if (i % 3 == host_.rank()) (void)busy_.matmul(busy_);
      std::vector<Event> events{
          device_.reduce_scatter(on_part, on_full, stream_), device_.all_reduce(sums, Reduce::sum, other_),
          device_.all_gather(gathers, on_slice, stream_), device_.all_gather(in_place, own, other_)};
      for (const Event& event : events) stream_.wait(event);
      host_.all_gather(all, slice, cpu_).wait();
      host_.reduce_scatter(part, full, cpu_).wait();
      host_.all_reduce(full, Reduce::sum, cpu_).wait();
      gathered = gathered && at::equal(gathers.cpu(), all);
      gathered_in_place = gathered_in_place && at::equal(in_place.cpu(), all);
      scattered = scattered && at::equal(on_part.cpu(), part);
      summed = summed && at::equal(sums.cpu(), full);
    }
    const std::string of = fmt::format("in shared memory {} [{}]", c10::toString(dtype), count);
    add(gathered, "all_gather " + of);
    add(gathered_in_place, "all_gather in place " + of);
    add(scattered, "reduce_scatter " + of);
    add(summed, "all_reduce " + of);
  }

  // Sums that need more memory than those before them, which have not ended.
  void growing() {
    std::vector<at::Tensor> parts, expected;
    for (const int64_t n : {600'000, 900'000, 1'800'000}) {
      const at::Tensor full = random(at::kDouble, n * size()), part = blank(at::kDouble, n), on_part = part.cuda();
      host_.reduce_scatter(part, full, cpu_).wait();
      const at::Tensor on_full = full.cuda();
      if (host_.rank() == 0) (void)busy_.matmul(busy_);
      stream_.wait(device_.reduce_scatter(on_part, on_full, stream_));
      parts.push_back(on_part);
      expected.push_back(part);
    }
    for (size_t i = 0; i < parts.size(); ++i) expect_same("reduce_scatter of growing size", parts[i], expected[i]);
  }

  void broadcast(at::ScalarType dtype, int64_t n) {
    const int root = size() - 1;
    const at::Tensor tensor = random(dtype, n), on_device = tensor.cuda();
    host_.broadcast(tensor, root, cpu_).wait();
    stream_.wait(device_.broadcast(on_device, root, stream_));
    expect_same("broadcast", on_device, tensor);
  }

  // Everyone sends before anyone receives, two messages each, too large for any buffer inside NCCL.
  void ring(int64_t n) {
    if (size() == 1) return;
    const int after = (host_.rank() + 1) % size(), before = (host_.rank() + size() - 1) % size();
    const auto message = [&](int rank, int number) {
      return at::arange(n, at::TensorOptions(at::kFloat).device(at::kCUDA)).add(100 * rank + number);
    };
    const at::Tensor sent[] = {message(host_.rank(), 0), message(host_.rank(), 1)};
    const at::Tensor got[] = {blank(at::kFloat, n).cuda(), blank(at::kFloat, n).cuda()};
    const Event sends[] = {device_.send(sent[0], after, stream_), device_.send(sent[1], after, stream_)};
    const Event receives[] = {device_.receive(got[0], before, stream_), device_.receive(got[1], before, stream_)};
    for (int i = 0; i < 2; ++i) {
      stream_.wait(receives[i]);
      stream_.wait(sends[i]);
      expect_same("receive", got[i], message(before, i).cpu());
    }
    // A collective posts messages in front of it.
    const Event late = device_.send(sent[0], after, stream_), early = device_.receive(got[1], before, stream_);
    stream_.wait(device_.all_reduce(at::zeros({1}, sent[0].options()), Reduce::sum, stream_));
    early.wait();
    late.wait();
    expect_same("receive in front of all_reduce", got[1], message(before, 0).cpu());
  }

  // A collective begins behind what the stream holds, and what waits for its event comes after it: slow work is put in
  // front of each, many times over the same memory.
  void order() {
    const auto floats = at::TensorOptions(at::kFloat).device(at::kCUDA);
    const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
    CudaStream other(side);
    const int64_t n = 1 << 20;
    at::Tensor slice = at::zeros({n}, floats), full = at::zeros({n * size()}, floats), sums = at::zeros({n}, floats);
    const at::Tensor busy = at::randn({2048, 2048}, floats);
    bool same = true;
    for (int i = 0; i < 10; ++i) {
      const at::Tensor slow = busy.matmul(busy);
      slice.fill_(static_cast<double>(i + host_.rank()));
      const Event gathered = device_.all_gather(full, slice, stream_);
      other.wait(gathered);
      Event added;
      {
        const c10::cuda::CUDAStreamGuard guard(side);
        sums.copy_(full.view({size(), n}).sum(0));
        added = other.record();
      }
      stream_.wait(added);
      const double expected = i * size() + size() * (size() - 1) / 2.0;
      same = same && sums.eq(expected).all().item<bool>();
    }
    add(same, "order of streams");
  }

  void errors() {
    const at::Tensor tensor = at::zeros({6}, at::TensorOptions(at::kFloat).device(at::kCUDA));
    const auto expect_error = [&](const std::string& text, const auto& run) {
      std::string found = "no error";
      try {
        run();
      } catch (const std::exception& error) {
        found = error.what();
      }
      add(found.find(text) != std::string::npos, fmt::format("error '{}' instead of '{}'", found, text));
    };
    expect_error("expected one dtype", [&] { (void)device_.all_gather(tensor, tensor.to(at::kHalf), stream_); });
    expect_error("elements in full", [&] { (void)device_.all_gather(tensor, tensor, stream_); });
    expect_error("expected a tensor on a device",
                 [&] { (void)device_.reduce_scatter(tensor.narrow(0, 0, 3).cpu(), tensor, stream_); });
    expect_error("is this rank itself", [&] { (void)device_.send(tensor, host_.rank(), stream_); });
    expect_error("not a rank of this group", [&] { (void)device_.broadcast(tensor, size(), stream_); });
  }

  void texts() {
    const std::vector<std::string> all = gather_strings(device_, fmt::format("I am {}", host_.rank()));
    add(static_cast<int>(all.size()) == size() && all.back() == fmt::format("I am {}", size() - 1), "gather_strings");
    device_.barrier();
  }

  [[nodiscard]] int size() const { return host_.size(); }

  Communicator& host_;
  NcclCommunicator& device_;
  CpuStream cpu_;
  CudaStream stream_ = CudaStream::current(), other_{c10::cuda::getStreamFromPool()};
  at::Tensor busy_ = at::randn({2048, 2048}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  int passed_ = 0, failed_ = 0;
};

void time_collectives(NcclCommunicator& group, const char* sums) {
  CudaStream stream = CudaStream::current();
  const int64_t size = group.size();
  const auto report = [&](const char* name, int64_t bytes, double share, const auto& run) {
    constexpr int kRuns = 20;
    for (int i = 0; i < 3; ++i) stream.wait(run());
    stream.record().wait();
    group.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRuns; ++i) stream.wait(run());
    stream.record().wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kRuns;
    // What each rank sends over what it took: the bus rate of NCCL's own tests.
    if (group.rank() == 0)
      fmt::print("{:<16} {:<8} {:8.2f} MiB {:9.1f} us {:7.1f} GB/s\n", name, sums,
                 static_cast<double>(bytes) / (1 << 20), seconds * 1e6,
                 static_cast<double>(bytes) * share / seconds * 1e-9);
  };
  const double share = static_cast<double>(size - 1) / static_cast<double>(size);
  for (const int64_t mebibytes : {1, 16, 128, 512}) {
    const int64_t n = (mebibytes << 20) / 2 / size;
    const auto half = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
    const at::Tensor full = at::randn({n * size}, half), slice = at::randn({n}, half),
                     wide = at::empty({n}, half.dtype(at::kFloat));
    const int64_t bytes = n * size * 2;
    report("all_gather", bytes, share, [&] { return group.all_gather(full, slice, stream); });
    report("reduce_scatter", bytes, share, [&] { return group.reduce_scatter(slice, full, stream); });
    report("  into fp32", bytes, share, [&] { return group.reduce_scatter(wide, full, stream); });
    const at::Tensor shared = group.shared_memory(bytes, full.device()).view(at::kBFloat16).view({size, n});
    report("exchange", bytes, share,
           [&] { return group.exchange(shared, std::vector<at::Tensor>(static_cast<size_t>(size), slice), stream); });
    report("all_reduce", bytes, 2 * share, [&] { return group.all_reduce(full, Reduce::max, stream); });
    report("  in shared memory", bytes, 2 * share,
           [&] { return group.all_reduce(shared.view({-1}), Reduce::max, stream); });
    report("all_gather, too", bytes, share, [&] { return group.all_gather(shared.view({-1}), slice, stream); });
  }
}

// The watchdog names a collective to which a rank does not come, and the communicator is of no use after that.
int check_hang(World& world, std::unique_ptr<Communicator> host) {
  NcclCommunicator group(std::move(host), {.timeout = 3s});
  CudaStream stream = CudaStream::current();
  // Small, and so NCCL's: nothing ends a device that waits for a copy, but the process.
  const at::Tensor tensor = at::zeros({1000}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  group.all_reduce(tensor, Reduce::sum, stream).wait();
  bool passed = true;
  if (world.rank() == 1) {
    std::this_thread::sleep_for(8s);
  } else {
    std::string found = "no error";
    try {
      group.all_reduce(tensor, Reduce::sum, stream).wait();
    } catch (const Interrupted& error) {
      found = error.what();
    }
    passed = found.find("all-reduce no. 1 of the data-parallel ranks") != std::string::npos &&
             found.find("did not finish within 3 s") != std::string::npos;
    fmt::print("{} rank {}: {}\n", passed ? "ok  " : "FAIL", world.rank(), found);
    std::this_thread::sleep_for(6s);
  }
  std::fflush(stdout);
  _exit(passed ? 0 : 1);  // the group is broken: there is no orderly end
}

int run(const std::string& what) {
  World world = World::connect({});
  log::configure(world.rank(), world.size());
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(world.launch().local_rank));
  at::manual_seed(static_cast<uint64_t>(world.rank()));
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (what == "hang") return check_hang(world, world.group("dp", ranks));
  const auto host = world.group("host", ranks);
  NcclCommunicator device(world.group("dp", ranks), {.timeout = 30s});
  Check check(*host, device);
  if (what != "time") check.all();
  if (what != "time" && world.size() == 2) {
    NcclCommunicator pair(world.group("pair", ranks), {.timeout = 30s});
    check.messages(pair);
    const PipelineEdges edges(world, ranks, c10::Device(c10::kCUDA, c10::cuda::current_device()), 30s);
    check.edges(edges);
  }
  if (what != "check") {
    time_collectives(device, "ordered");
    NcclCommunicator plain(world.group("nccl", ranks), {.ordered_sums = false});
    time_collectives(plain, "NCCL's");
  }
  return check.finish();
}

}  // namespace
}  // namespace partita::internal

int main(int count, char** arguments) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  try {
    return partita::internal::run(count > 1 ? arguments[1] : "");
  } catch (const std::exception& error) {
    fmt::print("FAIL stopped: {}\n", error.what());
    std::fflush(stdout);
  }
  partita::World::abort(1);
}
