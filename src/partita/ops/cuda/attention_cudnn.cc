// Attention with cuDNN. The only file that includes cudnn-frontend, which takes more than a minute to compile.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAStream.h>
#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/ops/cuda/attention_problem.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Kind = CudnnPlan::Kind;

// Ids of the tensors in a graph.
enum Uid : int64_t { kQ = 1, kK, kV, kOut, kLogSum, kDOut, kDQ, kDK, kDV, kSeed, kOffset };

constexpr int64_t kLongSequence = 512;  // queries from which on the lack of a plan is worth a warning
constexpr int64_t kSeedBytes = 256;     // seed and offset, before cuDNN's own workspace

bool is_backward(const CudnnPlan& plan) {
  return plan.kind == Kind::backward || plan.kind == Kind::repeatable_backward;
}

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) fail("cuDNN: {}: {}", call, cudnnGetErrorString(status));
}

// One handle per device; the caller holds the lock of plans().
cudnnHandle_t handle(int device) {
  static auto* handles = new std::map<int, cudnnHandle_t>;  // never destroyed: the driver may be gone at exit
  cudnnHandle_t& found = (*handles)[device];
  if (found == nullptr) check(cudnnCreate(&found), "cudnnCreate");
  check(cudnnSetStream(found, c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device))),
        "cudnnSetStream");
  return found;
}

// A built graph; null: cuDNN rejected it.
struct Built {
  std::unique_ptr<fe::graph::Graph> graph;
  int64_t workspace = -1;
};

class GraphMaker {
 public:
  explicit GraphMaker(const CudnnPlan& plan) : plan_(plan), graph_(std::make_unique<fe::graph::Graph>()) {
    graph_->set_io_data_type(plan.dtype == at::kHalf ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Built build() {
    is_backward(plan_) ? backward() : forward();
    Built built;
    fe::error_t error = plan();
    if (error.is_bad()) {
      report_missing(error.get_message());
      return built;
    }
    built.workspace = graph_->get_workspace_size();
    built.graph = std::move(graph_);
    return built;
  }

 private:
  // Warns once per process: where the backward pass has no plan, the forward pass of the same shape often has none
  // either. Without a repeatable backward pass with dropout, training ends with an error of its own.
  void report_missing(const std::string& reason) const {
    const std::string message = fmt::format(
        "cuDNN has no {} pass of attention for {} samples of {} queries and {} keys, {}/{} heads of {} channels{}: "
        "Partita's own kernels run, which are slow for long sequences ({})",
        is_backward(plan_) ? "backward" : "forward", plan_.samples, plan_.queries, plan_.keys, plan_.heads,
        plan_.kv_heads, plan_.head_width, plan_.dropout > 0 ? " with dropout" : "", reason);
    static bool warned = false;
    const bool ends = plan_.kind == Kind::repeatable_backward && plan_.dropout > 0;
    const bool warn = plan_.queries >= kLongSequence && !warned && !ends;
    warned = warned || warn;
    log::write(warn ? log::Level::warn : log::Level::debug, message);
  }

  fe::error_t plan() {
    cudnnHandle_t the_handle = handle(plan_.device);
    fe::error_t error = graph_->validate();
    if (error.is_good()) error = graph_->build_operation_graph(the_handle);
    if (error.is_good()) error = graph_->create_execution_plans({fe::HeurMode_t::A});
    if (error.is_good()) error = graph_->check_support();
    if (error.is_good()) error = graph_->build_plans();
    return error;
  }

  struct Form {
    std::vector<int64_t> size, stride;
  };
  Tensor describe(const char* name, Uid uid, const Form& form, fe::DataType_t type = fe::DataType_t::NOT_SET) {
    auto attributes =
        fe::graph::Tensor_attributes().set_name(name).set_uid(uid).set_dim(form.size).set_stride(form.stride);
    if (type != fe::DataType_t::NOT_SET) attributes.set_data_type(type);
    return graph_->tensor(attributes);
  }
  static void mark_output(const Tensor& tensor, Uid uid, const Form& form) {
    tensor->set_output(true).set_uid(uid).set_dim(form.size).set_stride(form.stride);
  }
  // Vectors of some tokens of each sample, in memory laid out as [samples, length, row].
  [[nodiscard]] Form vectors(int64_t heads, int64_t tokens, int64_t length, int64_t row) const {
    return {{plan_.samples, heads, tokens, plan_.head_width}, {length * row, plan_.head_width, row, 1}};
  }
  [[nodiscard]] int64_t packed_row() const { return (plan_.heads + 2 * plan_.kv_heads) * plan_.head_width; }
  [[nodiscard]] Form queries() const { return vectors(plan_.heads, plan_.queries, plan_.length, packed_row()); }
  [[nodiscard]] Form heads_of_out() const {
    return vectors(plan_.heads, plan_.queries, plan_.length, plan_.heads * plan_.head_width);
  }
  // Keys or values: in qkv, or apart, with `length` tokens of each sample in memory.
  [[nodiscard]] Form keys(int64_t length) const {
    if (plan_.whole == 0) return vectors(plan_.kv_heads, plan_.keys, plan_.length, packed_row());
    return vectors(plan_.kv_heads, plan_.keys, length, 2 * plan_.kv_heads * plan_.head_width);
  }
  [[nodiscard]] Form log_sums() const {
    return {{plan_.samples, plan_.heads, plan_.queries, 1}, {plan_.heads * plan_.queries, plan_.queries, 1, 1}};
  }

  Tensor query() { return describe("q", kQ, queries()); }
  Tensor key() { return describe("k", kK, keys(plan_.whole)); }
  Tensor value() { return describe("v", kV, keys(plan_.whole)); }
  Tensor number(const char* name, Uid uid) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_name(name)
                              .set_uid(uid)
                              .set_dim({1, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(fe::DataType_t::INT64));
  }
  template <class Attributes>
  void set_common(Attributes& attributes) {
    // The last query reads the last key.
    attributes.set_diagonal_alignment(plan_.keys > plan_.queries ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                                 : fe::DiagonalAlignment_t::TOP_LEFT);
    attributes.set_diagonal_band_right_bound(0);
    attributes.set_attn_scale(1 / std::sqrt(static_cast<float>(plan_.head_width)));
    if (plan_.dropout > 0) attributes.set_dropout(plan_.dropout, number("seed", kSeed), number("offset", kOffset));
  }

  void forward() {
    auto attributes = fe::graph::SDPA_attributes().set_name("attention");
    attributes.set_generate_stats(plan_.kind == Kind::forward);
    set_common(attributes);
    auto [out, log_sum] = graph_->sdpa(query(), key(), value(), attributes);
    mark_output(out, kOut, heads_of_out());
    if (plan_.kind == Kind::inference) return;
    mark_output(log_sum, kLogSum, log_sums());
    log_sum->set_data_type(fe::DataType_t::FLOAT);
  }

  void backward() {
    auto attributes = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    attributes.set_deterministic_algorithm(plan_.kind == Kind::repeatable_backward);
    set_common(attributes);
    const Tensor out = describe("out", kOut, heads_of_out());
    const Tensor d_out = describe("d_out", kDOut, heads_of_out());
    const Tensor log_sum = describe("log_sum", kLogSum, log_sums(), fe::DataType_t::FLOAT);
    auto [d_q, d_k, d_v] = graph_->sdpa_backward(query(), key(), value(), out, d_out, log_sum, attributes);
    mark_output(d_q, kDQ, queries());
    mark_output(d_k, kDK, keys(plan_.gradient_keys));
    mark_output(d_v, kDV, keys(plan_.gradient_keys));
  }

  const CudnnPlan& plan_;
  std::unique_ptr<fe::graph::Graph> graph_;
};

struct Plans {
  std::mutex mutex;
  std::map<CudnnPlan, Built> built;

  // The caller holds the mutex.
  const Built& find(const CudnnPlan& plan) {
    const auto found = built.find(plan);
    return found != built.end() ? found->second : built.emplace(plan, GraphMaker(plan).build()).first->second;
  }
};

Plans& plans() {
  static auto* all = new Plans;  // never destroyed: the driver may be gone at exit
  return *all;
}

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

// Where the query vectors of a run begin: in qkv, with q, k and v in each row, or in out.
std::byte* first_query(const at::Tensor& rows, const QueryRun& run) {
  return bytes_of(rows) + run.first * rows.size(2) * rows.element_size();
}

// q, k and v start at different columns of one packed tensor; k and v of whole sequences in `apart`, if not null.
void add_packed(std::unordered_map<int64_t, void*>& pointers, const CudnnPlan& plan, const at::Tensor& packed,
                std::byte* apart, const QueryRun& run, Uid q, Uid k, Uid v) {
  const int64_t width = plan.head_width * packed.element_size();
  std::byte* keys = apart != nullptr ? apart : bytes_of(packed) + plan.heads * width;
  pointers[q] = first_query(packed, run);
  pointers[k] = keys;
  pointers[v] = keys + plan.kv_heads * width;
}

// Bytes for gradients of keys and values that are added to those of an earlier call.
int64_t added_bytes(const CudnnPlan& plan) {
  if (!is_backward(plan) || plan.gradient_keys == plan.whole) return 0;
  const int64_t bytes = plan.samples * plan.keys * 2 * plan.kv_heads * plan.head_width * 2;
  return (bytes + 255) / 256 * 256;
}

}  // namespace

int64_t cudnn_workspace(const CudnnPlan& plan) {
  const std::lock_guard lock(plans().mutex);
  const Built& built = plans().find(plan);
  return built.graph ? kSeedBytes + added_bytes(plan) + built.workspace : -1;
}

void run_cudnn(const CudnnPlan& plan, const AttentionProblem& p, const QueryRun& run) {
  const std::lock_guard lock(plans().mutex);
  const Built& built = plans().find(plan);
  PARTITA_CHECK(built.graph);
  const int64_t added = added_bytes(plan);
  std::byte *memory = workspace(kSeedBytes + added + built.workspace), *apart = memory + kSeedBytes;
  std::unordered_map<int64_t, void*> pointers;
  const at::Tensor& whole = p.keys.keys_values;
  add_packed(pointers, plan, p.qkv, whole.defined() ? bytes_of(whole) : nullptr, run, kQ, kK, kV);
  pointers[kOut] = first_query(p.out, run);
  if (plan.kind != Kind::inference)
    pointers[kLogSum] = p.log_sum.mutable_data_ptr<float>() + run.first * plan.samples * plan.heads;
  if (is_backward(plan)) {
    pointers[kDOut] = first_query(p.d_out, run);
    std::byte* d_keys = added > 0 ? apart : whole.defined() ? bytes_of(p.d_keys_values) : nullptr;
    add_packed(pointers, plan, p.d_qkv, d_keys, run, kDQ, kDK, kDV);
  }
  if (plan.dropout > 0) {
    auto* seed = reinterpret_cast<int64_t*>(memory);
    write_cudnn_seed(seed, p.dropout, run.position);
    pointers[kSeed] = seed;
    pointers[kOffset] = seed + 1;
  }
  fe::error_t error = built.graph->execute(handle(plan.device), pointers, apart + added);
  if (error.is_bad()) fail("cuDNN: attention failed: {}", error.get_message());
  if (added == 0) return;
  const at::Tensor d_keys = p.d_keys_values.narrow(1, 0, plan.keys);
  d_keys.add_(at::from_blob(apart, d_keys.sizes(), d_keys.options()));
}

}  // namespace partita::internal::cuda
