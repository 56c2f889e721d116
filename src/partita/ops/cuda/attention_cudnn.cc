// Attention with cuDNN. The only file that includes cudnn-frontend, which takes more than a minute to compile.
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <cudnn_frontend.h>

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

constexpr int64_t kSeedBytes = 256;  // seed and offset, before cuDNN's own workspace

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
      log::debug("cuDNN has no attention plan for {} samples of {}, {}/{} heads of {}: {}", plan_.samples, plan_.length,
                 plan_.heads, plan_.kv_heads, plan_.head_width, error.get_message());
      return built;
    }
    built.workspace = graph_->get_workspace_size();
    built.graph = std::move(graph_);
    return built;
  }

 private:
  fe::error_t plan() {
    cudnnHandle_t the_handle = handle(plan_.device);
    fe::error_t error = graph_->validate();
    if (error.is_good()) error = graph_->build_operation_graph(the_handle);
    if (error.is_good()) error = graph_->create_execution_plans({fe::HeurMode_t::A});
    if (error.is_good()) error = graph_->check_support();
    if (error.is_good()) error = graph_->build_plans();
    return error;
  }

  Tensor describe(const char* name, Uid uid, int64_t heads, int64_t width, std::vector<int64_t> stride,
                  fe::DataType_t type = fe::DataType_t::NOT_SET) {
    auto form = fe::graph::Tensor_attributes()
                    .set_name(name)
                    .set_uid(uid)
                    .set_dim({plan_.samples, heads, plan_.length, width})
                    .set_stride(std::move(stride));
    if (type != fe::DataType_t::NOT_SET) form.set_data_type(type);
    return graph_->tensor(form);
  }
  void mark_output(const Tensor& tensor, Uid uid, int64_t heads, int64_t width, std::vector<int64_t> stride) {
    tensor->set_output(true)
        .set_uid(uid)
        .set_dim({plan_.samples, heads, plan_.length, width})
        .set_stride(std::move(stride));
  }
  // Strides of [samples, heads, length, width] in memory laid out as [samples, length, row].
  [[nodiscard]] std::vector<int64_t> strides(int64_t row) const {
    return {plan_.length * row, plan_.head_width, row, 1};
  }
  [[nodiscard]] std::vector<int64_t> packed() const {
    return strides((plan_.heads + 2 * plan_.kv_heads) * plan_.head_width);
  }
  [[nodiscard]] std::vector<int64_t> heads_of_out() const { return strides(plan_.heads * plan_.head_width); }
  [[nodiscard]] std::vector<int64_t> log_sums() const { return {plan_.heads * plan_.length, plan_.length, 1, 1}; }

  Tensor query() { return describe("q", kQ, plan_.heads, plan_.head_width, packed()); }
  Tensor key() { return describe("k", kK, plan_.kv_heads, plan_.head_width, packed()); }
  Tensor value() { return describe("v", kV, plan_.kv_heads, plan_.head_width, packed()); }
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
    attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    attributes.set_diagonal_band_right_bound(0);
    attributes.set_attn_scale(1 / std::sqrt(static_cast<float>(plan_.head_width)));
    if (plan_.dropout > 0) attributes.set_dropout(plan_.dropout, number("seed", kSeed), number("offset", kOffset));
  }

  void forward() {
    auto attributes = fe::graph::SDPA_attributes().set_name("attention");
    attributes.set_generate_stats(plan_.kind == Kind::forward);
    set_common(attributes);
    auto [out, log_sum] = graph_->sdpa(query(), key(), value(), attributes);
    mark_output(out, kOut, plan_.heads, plan_.head_width, heads_of_out());
    if (plan_.kind == Kind::inference) return;
    mark_output(log_sum, kLogSum, plan_.heads, 1, log_sums());
    log_sum->set_data_type(fe::DataType_t::FLOAT);
  }

  void backward() {
    auto attributes = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    attributes.set_deterministic_algorithm(plan_.kind == Kind::repeatable_backward);
    set_common(attributes);
    const Tensor out = describe("out", kOut, plan_.heads, plan_.head_width, heads_of_out());
    const Tensor d_out = describe("d_out", kDOut, plan_.heads, plan_.head_width, heads_of_out());
    const Tensor log_sum = describe("log_sum", kLogSum, plan_.heads, 1, log_sums(), fe::DataType_t::FLOAT);
    auto [d_q, d_k, d_v] = graph_->sdpa_backward(query(), key(), value(), out, d_out, log_sum, attributes);
    mark_output(d_q, kDQ, plan_.heads, plan_.head_width, packed());
    mark_output(d_k, kDK, plan_.kv_heads, plan_.head_width, packed());
    mark_output(d_v, kDV, plan_.kv_heads, plan_.head_width, packed());
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

// q, k and v start at different columns of one packed tensor.
void add_packed(std::unordered_map<int64_t, void*>& pointers, const CudnnPlan& plan, const at::Tensor& packed, Uid q,
                Uid k, Uid v) {
  auto* begin = static_cast<std::byte*>(packed.mutable_data_ptr());
  const int64_t width = plan.head_width * packed.element_size();
  pointers[q] = begin;
  pointers[k] = begin + plan.heads * width;
  pointers[v] = begin + (plan.heads + plan.kv_heads) * width;
}

}  // namespace

int64_t cudnn_workspace(const CudnnPlan& plan) {
  const std::lock_guard lock(plans().mutex);
  const Built& built = plans().find(plan);
  return built.graph ? built.workspace + kSeedBytes : -1;
}

void run_cudnn(const CudnnPlan& plan, const AttentionProblem& p) {
  const std::lock_guard lock(plans().mutex);
  const Built& built = plans().find(plan);
  PARTITA_CHECK(built.graph);
  std::byte* memory = workspace(built.workspace + kSeedBytes);
  std::unordered_map<int64_t, void*> pointers;
  add_packed(pointers, plan, p.qkv, kQ, kK, kV);
  pointers[kOut] = p.out.mutable_data_ptr();
  if (plan.kind != Kind::inference) pointers[kLogSum] = p.log_sum.mutable_data_ptr();
  if (is_backward(plan)) {
    pointers[kDOut] = p.d_out.mutable_data_ptr();
    add_packed(pointers, plan, p.d_qkv, kDQ, kDK, kDV);
  }
  if (plan.dropout > 0) {
    auto* seed = reinterpret_cast<int64_t*>(memory);
    write_cudnn_seed(seed, p.dropout);
    pointers[kSeed] = seed;
    pointers[kOffset] = seed + 1;
  }
  fe::error_t error = built.graph->execute(handle(plan.device), pointers, memory + kSeedBytes);
  if (error.is_bad()) fail("cuDNN: attention failed: {}", error.get_message());
}

}  // namespace partita::internal::cuda
