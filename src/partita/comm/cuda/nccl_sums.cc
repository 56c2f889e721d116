// Sums and maxima over the ranks of an NcclCommunicator.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "partita/comm/arguments.h"
#include "partita/comm/cuda/nccl_calls.h"
#include "partita/comm/cuda/ordered_sum.h"

namespace partita::internal {
namespace {

// Up to this size latency dominates: every rank receives all data in a single round.
constexpr int64_t kSmallBytes = 64 << 10;
// Alignment, in elements, of the parts of a sum: the kernel loads and stores vectors.
constexpr int64_t kPartAlignment = 16;

ncclDataType_t nccl_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kHalf:
      return ncclFloat16;
    case at::kDouble:
      return ncclFloat64;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    default:
      return ncclUint8;
  }
}

}  // namespace

PeerMemory* NcclCommunicator::rows_by_copies(const at::Tensor& full) {
  const auto bytes = static_cast<int64_t>(full.nbytes());
  if (size() == 1 || bytes <= kSmallBytes || is_capturing(c10::cuda::getCurrentCUDAStream().stream())) return nullptr;
  if (rows_ && rows_->bytes() >= bytes) return rows_.get();
  messages_->post();  // other ranks may wait for them before they come here
  if (rows_) PeerMemory::close(std::move(rows_), *host_);
  rows_ = create_memory(bytes);
  return rows_.get();
}

template <class Body>
Event NcclCommunicator::run_sum(const char* kind, const at::Tensor& tensor, Stream& stream, PeerMemory& rows,
                                size_t bytes, Body body) {
  watchdog_->check();
  messages_->post();
  const Watchdog::Call call{kind, calls_++, static_cast<int64_t>(tensor.nbytes())};
  const Watchdog::Posting posting(watchdog_.get(), call);
  std::vector<const void*> parts;
  for (int r = 0; r < size(); ++r) parts.push_back(data(tensor) + static_cast<size_t>(r) * bytes);
  copies_.wait(stream.record());
  copies_.wait(rows_read_);
  rows.exchange(0, static_cast<int64_t>(bytes), parts, copies_.stream().stream());
  stream_.wait(copies_.record());
  {
    const c10::cuda::CUDAStreamGuard guard(stream_.stream());
    const std::lock_guard lock(mutex_);
    body();
  }
  rows_read_ = stream_.record();
  return Event(finish(call));
}

at::Tensor NcclCommunicator::scratch(int64_t count, const at::Tensor& like) const {
  return at::empty({count}, like.options());
}

bool NcclCommunicator::uses_nccl_sum(at::ScalarType to, at::ScalarType from) const {
  return !options_.ordered_sums && to == from && size() > 1;
}

Event NcclCommunicator::reduce_scatter(at::Tensor slice, at::Tensor full, Stream& stream) {
  if (full.is_cpu()) return host_->reduce_scatter(slice, full, stream);
  check_reduce_scatter(*this, slice, full, at::kCUDA);
  const int64_t n = slice.numel();
  const size_t bytes = full.nbytes() / static_cast<size_t>(size());
  const at::ScalarType to = slice.scalar_type(), from = full.scalar_type();
  const auto part_of = [bytes](std::byte* whole) {
    return [=](int peer) { return Bytes{whole + static_cast<size_t>(peer) * bytes, bytes}; };
  };
  const auto mine = part_of(data(full));
  const auto add = [&](const std::byte* rows) {
    reduce_rows_on_device(Reduce::sum, to, data(slice), from, rows, mine(rank()).data, rank(), size(), n,
                          stream_.stream());
  };
  if (PeerMemory* rows = uses_nccl_sum(to, from) ? nullptr : rows_by_copies(full))
    return run_sum("reduce_scatter", full, stream, *rows, bytes, [&] { add(rows->data()); });
  return run("reduce_scatter", full, stream, [&] {
    if (uses_nccl_sum(to, from)) {
      check(ncclReduceScatter(data(full), data(slice), static_cast<size_t>(n), nccl_type(from), ncclSum, comm_,
                              stream_.stream()),
            "reduce_scatter");
      return;
    }
    at::Tensor rows;
    if (size() > 1) {
      rows = scratch(n * size(), full);
      exchange(part_of(data(rows)), mine);
    }
    add(rows.defined() ? data(rows) : nullptr);
  });
}

Event NcclCommunicator::all_reduce(at::Tensor tensor, Reduce kind, Stream& stream) {
  if (tensor.is_cpu()) return host_->all_reduce(tensor, kind, stream);
  check_all_reduce(*this, tensor, at::kCUDA);
  const bool by_nccl = uses_nccl_sum(tensor.scalar_type(), tensor.scalar_type());
  // By copies the parts are of one size.
  if (!by_nccl && tensor.numel() % (kPartAlignment * size()) == 0)
    if (PeerMemory* rows = rows_by_copies(tensor)) return all_reduce_by_copies(tensor, kind, stream, *rows);
  return run("all_reduce", tensor, stream, [&] {
    if (size() == 1) return;
    if (by_nccl)
      check(ncclAllReduce(data(tensor), data(tensor), static_cast<size_t>(tensor.numel()),
                          nccl_type(tensor.scalar_type()), kind == Reduce::sum ? ncclSum : ncclMax, comm_,
                          stream_.stream()),
            "all_reduce");
    else if (static_cast<int64_t>(tensor.nbytes()) <= kSmallBytes)
      reduce_at_once(tensor, kind);
    else
      reduce_in_parts(tensor, kind);
  });
}

Event NcclCommunicator::all_reduce_by_copies(const at::Tensor& tensor, Reduce kind, Stream& stream, PeerMemory& rows) {
  const size_t bytes = tensor.nbytes() / static_cast<size_t>(size());
  std::byte* const mine = data(tensor) + static_cast<size_t>(rank()) * bytes;
  const at::ScalarType dtype = tensor.scalar_type();
  PeerMemory* const shared = shared_by(tensor);
  const Event summed = run_sum("all_reduce", tensor, stream, rows, bytes, [&] {
    reduce_rows_on_device(kind, dtype, mine, dtype, rows.data(), mine, rank(), size(), tensor.numel() / size(),
                          stream_.stream());
    if (shared != nullptr) return;
    exchange(
        [&](int peer) {
          return Bytes{data(tensor) + static_cast<size_t>(peer) * bytes, bytes};
        },
        [&](int) {
          return Bytes{mine, bytes};
        });
  });
  if (shared == nullptr) return summed;
  const Watchdog::Call call{"all_reduce", calls_++, static_cast<int64_t>(tensor.nbytes())};
  return run_copies(call, stream_, [&](cudaStream_t copies) {
    shared->exchange(data(tensor) - shared->data(), static_cast<int64_t>(bytes), to_all(mine), copies);
  });
}

void NcclCommunicator::reduce_at_once(const at::Tensor& tensor, Reduce kind) {
  const at::Tensor rows = scratch(tensor.numel() * size(), tensor);
  check(ncclAllGather(data(tensor), data(rows), tensor.nbytes(), ncclUint8, comm_, stream_.stream()), "all_reduce");
  reduce_rows_on_device(kind, tensor.scalar_type(), data(tensor), tensor.scalar_type(), data(rows), data(tensor),
                        rank(), size(), tensor.numel(), stream_.stream());
}

void NcclCommunicator::reduce_in_parts(const at::Tensor& tensor, Reduce kind) {
  // Rank r sums part r of the elements.
  const int64_t part = (tensor.numel() + size() - 1) / size(),
                most = (part + kPartAlignment - 1) / kPartAlignment * kPartAlignment, width = tensor.element_size();
  const auto range = [&](int of) {
    const int64_t begin = std::min(tensor.numel(), of * most), end = std::min(tensor.numel(), begin + most);
    return Bytes{data(tensor) + begin * width, static_cast<size_t>((end - begin) * width)};
  };
  const Bytes mine = range(rank());
  const at::Tensor rows = scratch(most * size(), tensor);
  const auto row = [&](int peer) { return Bytes{data(rows) + static_cast<size_t>(peer) * mine.count, mine.count}; };
  exchange(row, range);
  reduce_rows_on_device(kind, tensor.scalar_type(), mine.data, tensor.scalar_type(), data(rows), mine.data, rank(),
                        size(), static_cast<int64_t>(mine.count) / width, stream_.stream());
  exchange(range, [&](int) { return mine; });
}

}  // namespace partita::internal
