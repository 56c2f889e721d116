#include "partita/comm/self_check.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/comm/communicator.h"

namespace partita {
using namespace internal;
namespace {

constexpr int64_t kElements = 5;

class Check {
 public:
  Check(Communicator& group, at::ScalarType dtype, at::Device device, Stream& stream)
      : group_(group), dtype_(dtype), device_(device), stream_(stream), rank_(group.rank()), size_(group.size()) {}

  void all() {
    gather();
    exchange();
    scatter();
    reduce(Reduce::sum, "all_reduce (sum)");
    reduce(Reduce::max, "all_reduce (max)");
    broadcast();
    pass_on();
  }

 private:
  template <class Value>
  at::Tensor make(int64_t n, Value value_at) const {
    at::Tensor wide = at::empty({n}, at::kLong);
    for (int64_t i = 0; i < n; ++i) wide.mutable_data_ptr<int64_t>()[i] = value_at(i);
    return wide.to(dtype_).to(device_);
  }

  template <class Value>
  void expect(const char* call, const at::Tensor& found, Value value_at) const {
    const at::Tensor wide = found.cpu().to(at::kDouble);
    for (int64_t i = 0; i < wide.numel(); ++i) {
      const double is = wide.const_data_ptr<double>()[i];
      const auto should = static_cast<double>(value_at(i));
      if (is != should)
        fail(
            "self-check of {}.{} on rank {} failed: element {} ({}) is {}, expected {}: the ranks run different "
            "programs or the network is broken",
            group_.name(), call, rank_, i, c10::toString(dtype_), is, should);
    }
  }

  at::Tensor mine() const {
    return make(kElements, [&](int64_t i) { return self_check_value(rank_, i); });
  }
  at::Tensor blank(int64_t n) const {
    return make(n, [](int64_t) { return 77; });
  }

  void gather() {
    at::Tensor full = blank(kElements * size_);
    group_.all_gather(full, mine(), stream_).wait();
    expect("all_gather", full, [](int64_t i) { return self_check_value(i / kElements, i % kElements); });
  }

  void exchange() {
    // Row r goes to rank r; its values depend on both ranks.
    at::Tensor out = blank(kElements * size_),
               in = make(kElements * size_, [&](int64_t i) { return self_check_value(rank_, i); });
    group_.all_to_all(out, in, stream_).wait();
    expect("all_to_all", out,
           [&](int64_t i) { return self_check_value(i / kElements, rank_ * kElements + i % kElements); });
  }

  int64_t sum(int64_t element) const {
    int64_t total = 0;
    for (int64_t r = 0; r < size_; ++r) total += self_check_value(r, element);
    return total;
  }

  void scatter() {
    at::Tensor slice = blank(kElements),
               full = make(kElements * size_, [&](int64_t i) { return self_check_value(rank_, i); });
    group_.reduce_scatter(slice, full, stream_).wait();
    expect("reduce_scatter", slice, [&](int64_t i) { return sum(rank_ * kElements + i); });
  }

  void reduce(Reduce kind, const char* call) {
    at::Tensor tensor = mine();
    group_.all_reduce(tensor, kind, stream_).wait();
    expect(call, tensor, [&](int64_t i) {
      if (kind == Reduce::sum) return sum(i);
      int64_t largest = 0;
      for (int64_t r = 0; r < size_; ++r) largest = std::max(largest, self_check_value(r, i));
      return largest;
    });
  }

  void broadcast() {
    const int root = size_ - 1;
    at::Tensor tensor = mine();
    group_.broadcast(tensor, root, stream_).wait();
    expect("broadcast", tensor, [&](int64_t i) { return self_check_value(root, i); });
  }

  // Passes a message around the ring.
  void pass_on() {
    if (size_ == 1) return;
    const int after = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    at::Tensor got = blank(kElements), sent = mine();
    const Event sending = group_.send(sent, after, stream_);
    group_.receive(got, before, stream_).wait();
    sending.wait();
    expect("receive", got, [&](int64_t i) { return self_check_value(before, i); });
  }

  Communicator& group_;
  at::ScalarType dtype_;
  at::Device device_;
  Stream& stream_;
  int rank_, size_;
};

}  // namespace

void self_check(Communicator& group) {
  CpuStream stream;
  self_check(group, at::kCPU, stream);
}

void self_check(Communicator& group, at::Device device, Stream& stream) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kInt, at::kLong, at::kByte})
    Check(group, dtype, device, stream).all();
  group.barrier();
}

}  // namespace partita
