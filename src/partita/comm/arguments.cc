#include "partita/comm/arguments.h"

#include "partita/base/error.h"
#include "partita/comm/ordered_sum.h"

namespace partita::internal {
namespace {

struct Extent {
  const std::byte *begin, *end;
  explicit Extent(const at::Tensor& tensor)
      : begin(static_cast<const std::byte*>(tensor.const_data_ptr())), end(begin + tensor.nbytes()) {}
  [[nodiscard]] bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

void check_same_dtype(const Communicator& group, const char* call, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type())
    fail("{}.{}: expected one dtype, found {} and {}", group.name(), call, c10::toString(a.scalar_type()),
         c10::toString(b.scalar_type()));
}

void check_sizes(const Communicator& group, const char* call, const at::Tensor& full, const at::Tensor& slice) {
  if (full.numel() != slice.numel() * group.size())
    fail("{}.{}: expected {} elements in full for {} ranks of {} each, found {}", group.name(), call,
         slice.numel() * group.size(), group.size(), slice.numel(), full.numel());
}

}  // namespace

void check_tensor(const Communicator& group, const char* call, const at::Tensor& tensor, at::DeviceType where) {
  if (!tensor.defined()) fail("{}.{}: the tensor is undefined", group.name(), call);
  if (tensor.device().type() != where)
    fail("{}.{}: expected a tensor {}, found one on {}", group.name(), call,
         where == at::kCPU ? "in host memory" : "on a device", tensor.device().str());
  if (!tensor.is_contiguous()) fail("{}.{}: the tensor is not contiguous", group.name(), call);
}

void check_all_gather(const Communicator& group, const at::Tensor& full, const at::Tensor& slice,
                      at::DeviceType where) {
  check_tensor(group, "all_gather", full, where);
  check_tensor(group, "all_gather", slice, where);
  check_same_dtype(group, "all_gather", full, slice);
  check_sizes(group, "all_gather", full, slice);
  const Extent whole(full), part(slice);
  if (part.overlaps(whole) && part.begin != whole.begin + slice.nbytes() * static_cast<size_t>(group.rank()))
    fail("{}.all_gather: slice is a part of full, but not this rank's part (element {})", group.name(),
         slice.numel() * group.rank());
}

void check_all_to_all(const Communicator& group, const at::Tensor& out, const at::Tensor& in, at::DeviceType where) {
  check_tensor(group, "all_to_all", out, where);
  check_tensor(group, "all_to_all", in, where);
  check_same_dtype(group, "all_to_all", out, in);
  if (out.numel() != in.numel())
    fail("{}.all_to_all: out has {} elements, in {}", group.name(), out.numel(), in.numel());
  if (in.numel() % group.size() != 0)
    fail("{}.all_to_all: {} elements are not one row for each of {} ranks", group.name(), in.numel(), group.size());
  if (Extent(out).overlaps(Extent(in))) fail("{}.all_to_all: out overlaps in", group.name());
}

void check_exchange(const Communicator& c, const at::Tensor& out, const std::vector<at::Tensor>& sent,
                    at::DeviceType where) {
  check_tensor(c, "exchange", out, where);
  if (std::ssize(sent) != c.size() || out.dim() < 1 || out.size(0) != c.size())
    fail("{}.exchange: {} tensors to send and {} rows, expected one for each of {} ranks", c.name(), sent.size(),
         out.dim() < 1 ? 0 : out.size(0), c.size());
  for (int r = 0; r < c.size(); ++r) {
    const at::Tensor& part = sent[static_cast<size_t>(r)];
    if (r == c.rank()) continue;
    check_tensor(c, "exchange", part, where);
    if (part.nbytes() * sent.size() != out.nbytes())
      fail("{}.exchange: {} bytes for rank {}, rows have {}", c.name(), part.nbytes(), r, out.nbytes() / sent.size());
  }
}

void check_reduce_scatter(const Communicator& group, const at::Tensor& slice, const at::Tensor& full,
                          at::DeviceType where) {
  check_tensor(group, "reduce_scatter", slice, where);
  check_tensor(group, "reduce_scatter", full, where);
  check_sizes(group, "reduce_scatter", full, slice);
  check_reducible(group.name() + ".reduce_scatter", slice.scalar_type(), full.scalar_type());
  if (Extent(slice).overlaps(Extent(full))) fail("{}.reduce_scatter: slice overlaps full", group.name());
}

void check_all_reduce(const Communicator& group, const at::Tensor& tensor, at::DeviceType where) {
  check_tensor(group, "all_reduce", tensor, where);
  check_reducible(group.name() + ".all_reduce", tensor.scalar_type(), tensor.scalar_type());
}

void check_peer(const Communicator& group, const char* call, const char* name, int rank) {
  if (rank < 0 || rank >= group.size())
    fail("{}.{}: {}={} is not a rank of this group of {}", group.name(), call, name, rank, group.size());
}

void check_other(const Communicator& group, const char* call, const char* name, int rank) {
  check_peer(group, call, name, rank);
  if (rank == group.rank()) fail("{}.{}: {}={} is this rank itself", group.name(), call, name, rank);
}

}  // namespace partita::internal
