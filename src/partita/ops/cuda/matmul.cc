#include "partita/ops/cuda/matmul.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "partita/ops/cuda/check.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::cuda {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail("cuBLASLt: {}: {}", call, cublasLtGetStatusString(status));
}

#define PARTITA_CUBLAS(call) check(call, #call)

template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* it) const {
    Destroy(it);
  }
};
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroyer<cublasLtMatmulDescDestroy>>;
using MatrixLayout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroyer<cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroyer<cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t cuda_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_backward:
      return CUBLASLT_EPILOGUE_DGELU;
    default:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// A handle for each device; the caller holds the lock of plans().
cublasLtHandle_t handle(int device) {
  static auto* handles = new std::map<int, cublasLtHandle_t>;  // never destroyed: the driver may be gone at exit
  cublasLtHandle_t& found = (*handles)[device];
  if (found == nullptr) PARTITA_CUBLAS(cublasLtCreate(&found));
  return found;
}

template <class T>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  PARTITA_CUBLAS(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value));
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  PARTITA_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

MatrixLayout layout(at::ScalarType dtype, int64_t rows, int64_t columns, int64_t row) {
  cublasLtMatrixLayout_t made = nullptr;
  PARTITA_CUBLAS(cublasLtMatrixLayoutCreate(&made, cuda_type(dtype), static_cast<uint64_t>(rows),
                                            static_cast<uint64_t>(columns), row));
  return MatrixLayout(made);
}

struct Operands {
  const void *a, *b;
  void* out;
  const void* bias = nullptr;
  void* aux = nullptr;
  float scale = 1;
};

// Descriptions and algorithms of one product.
class Plan {
 public:
  explicit Plan(const Product& p)
      : a_(p.transposed_a ? layout(p.dtype, p.k, p.m, p.row_a) : layout(p.dtype, p.m, p.k, p.row_a)),
        b_(p.transposed_b ? layout(p.dtype, p.n, p.k, p.row_b) : layout(p.dtype, p.k, p.n, p.row_b)),
        out_(layout(p.out_dtype, p.m, p.n, p.row_out)) {
    cublasLtMatmulDesc_t description = nullptr;
    PARTITA_CUBLAS(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    description_.reset(description);
    set(description_, CUBLASLT_MATMUL_DESC_TRANSA, p.transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description_, CUBLASLT_MATMUL_DESC_TRANSB, p.transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(p.epilogue));
    if (p.epilogue == Epilogue::bias || p.epilogue == Epilogue::gelu)
      set(description_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(p.out_dtype));
    if (p.epilogue == Epilogue::gelu || p.epilogue == Epilogue::gelu_backward) {
      set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.m);
      set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cuda_type(p.out_dtype));
    }
    find_algorithms(p);
  }

  [[nodiscard]] int candidates() const { return static_cast<int>(algorithms_.size()); }
  void choose(int candidate) { chosen_ = candidate; }

  void run(const Product& p, const Operands& o) {
    if (o.bias != nullptr) set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
    if (o.aux != nullptr) set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, o.aux);
    const float beta = p.accumulate ? 1 : 0;
    PARTITA_CUBLAS(cublasLtMatmul(handle(p.device), description_.get(), &o.scale, o.a, a_.get(), o.b, b_.get(), &beta,
                                  o.out, out_.get(), o.out, out_.get(), &algorithms_[static_cast<size_t>(chosen_)],
                                  workspace(kMatmulWorkspace), static_cast<size_t>(kMatmulWorkspace),
                                  c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(p.device))));
  }

 private:
  void find_algorithms(const Product& p) {
    cublasLtMatmulPreference_t made = nullptr;
    PARTITA_CUBLAS(cublasLtMatmulPreferenceCreate(&made));
    const Preference preference(made);
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kMatmulWorkspace));
    // Parts of a sum over k are added in fp32, not in the output's dtype.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(p.align_a));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(p.align_b));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(p.align_out));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(p.align_out));
    std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle(p.device), description_.get(), a_.get(), b_.get(), out_.get(), out_.get(),
                                       preference.get(), static_cast<int>(results.size()), results.data(), &count);
    for (int i = 0; i < count; ++i)
      if (results[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        algorithms_.push_back(results[static_cast<size_t>(i)].algo);
    if (algorithms_.empty()) fail("cuBLASLt has no algorithm for {}: {}", p.text(), cublasLtGetStatusString(status));
  }

  MatrixLayout a_, b_, out_;
  Description description_;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
  int chosen_ = 0;
};

struct Plans {
  std::mutex mutex;
  std::map<Product, Plan> made;
};

Plans& plans() {
  static auto* all = new Plans;  // never destroyed: the library may be gone at exit
  return *all;
}

int alignment(const void* address) {
  return static_cast<int>(
      std::min<uintptr_t>(256, uintptr_t{1} << std::countr_zero(reinterpret_cast<uintptr_t>(address))));
}

void run(Product p, const Operands& o) {
  p.device = c10::cuda::current_device();
  p.align_a = alignment(o.a), p.align_b = alignment(o.b), p.align_out = alignment(o.out);
  const std::lock_guard lock(plans().mutex);
  const auto found = plans().made.find(p);
  Plan& plan = found != plans().made.end() ? found->second : plans().made.emplace(p, Plan(p)).first->second;
  plan.run(p, o);
}

const void* data(const at::Tensor& tensor) { return tensor.const_data_ptr(); }
void* mutable_data(const at::Tensor& tensor) { return tensor.mutable_data_ptr(); }
// A matrix of one row has no distance between rows that could be relied on.
int64_t row_of(const at::Tensor& matrix) { return std::max(matrix.size(1), matrix.stride(0)); }

// Nothing to add up: true when there is nothing else to do either.
bool is_empty(const at::Tensor& out, int64_t k, bool accumulate) {
  if (out.numel() > 0 && k == 0 && !accumulate) out.zero_();
  return out.numel() == 0 || k == 0;
}

// y [N, out] of x [N, in] and w [out, in]. BLAS counts columns first: y^T = w x^T.
Product forward_product(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool accumulate,
                        Epilogue epilogue) {
  return {.dtype = x.scalar_type(),
          .out_dtype = y.scalar_type(),
          .m = w.size(0),
          .n = x.size(0),
          .k = w.size(1),
          .transposed_a = true,
          .row_a = w.size(1),
          .row_b = w.size(1),
          .row_out = row_of(y),
          .accumulate = accumulate,
          .epilogue = epilogue};
}

// d_x [N, in] of d_y [N, out] and w [out, in]: d_x^T = w^T d_y^T.
Product input_product(const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& w, bool accumulate,
                      Epilogue epilogue) {
  return {.dtype = d_y.scalar_type(),
          .out_dtype = d_x.scalar_type(),
          .m = w.size(1),
          .n = d_y.size(0),
          .k = w.size(0),
          .row_a = w.size(1),
          .row_b = row_of(d_y),
          .row_out = w.size(1),
          .accumulate = accumulate,
          .epilogue = epilogue};
}

at::ScalarType check_forward(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w) {
  const at::ScalarType dtype = check_activation(x, "x");
  PARTITA_CHECK(x.dim() == 2 && w.defined() && w.dim() == 2, "x and w must be matrices");
  const int64_t N = x.size(0), in = x.size(1), out = w.size(0);
  check_tensor(x, "x", {N, in}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_columns(y, "y", {N, out}, dtype);
  return dtype;
}

}  // namespace

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias) {
  const at::ScalarType dtype = check_forward(y, x, w);
  check_optional(bias, "bias", {w.size(0)}, dtype);
  if (x.size(1) == 0 && bias.defined()) return void(y.copy_(bias.expand_as(y)));
  if (is_empty(y, x.size(1), false)) return;
  run(forward_product(y, x, w, false, bias.defined() ? Epilogue::bias : Epilogue::none),
      {.a = data(w), .b = data(x), .out = mutable_data(y), .bias = bias.defined() ? data(bias) : nullptr});
}

void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale) {
  (void)check_forward(y, x, w);
  if (is_empty(y, x.size(1), true)) return;
  run(forward_product(y, x, w, true, Epilogue::none),
      {.a = data(w), .b = data(x), .out = mutable_data(y), .scale = scale});
}

void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale, bool accumulate) {
  const at::ScalarType dtype = check_activation(d_y, "d_y");
  PARTITA_CHECK(d_y.dim() == 2 && w.defined() && w.dim() == 2, "d_y and w must be matrices");
  const int64_t N = d_y.size(0), in = w.size(1), out = w.size(0);
  check_columns(d_y, "d_y", {N, out}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_tensor(d_x, "d_x", {N, in}, dtype);
  if (is_empty(d_x, out, accumulate)) return;
  run(input_product(d_x, d_y, w, accumulate, Epilogue::none),
      {.a = data(w), .b = data(d_y), .out = mutable_data(d_x), .scale = scale});
}

void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale) {
  const at::ScalarType dtype = check_activation(x, "x");
  PARTITA_CHECK(x.dim() == 2 && d_y.defined() && d_y.dim() == 2, "x and d_y must be matrices");
  const int64_t N = x.size(0), in = x.size(1), out = d_y.size(1);
  check_tensor(x, "x", {N, in}, dtype);
  check_columns(d_y, "d_y", {N, out}, dtype);
  PARTITA_CHECK(d_w.defined(), "d_w is missing");
  check_tensor(d_w, "d_w", {out, in}, d_w.scalar_type() == dtype ? dtype : at::kFloat);
  if (is_empty(d_w, N, accumulate)) return;
  // d_w^T = x^T d_y.
  run({.dtype = dtype,
       .out_dtype = d_w.scalar_type(),
       .m = in,
       .n = out,
       .k = N,
       .transposed_b = true,
       .row_a = in,
       .row_b = row_of(d_y),
       .row_out = in,
       .accumulate = accumulate},
      {.a = data(x), .b = data(d_y), .out = mutable_data(d_w), .scale = scale});
}

bool has_gelu_products(const at::Tensor& up) {
  return (up.scalar_type() == at::kBFloat16 || up.scalar_type() == at::kHalf) && up.size(1) % 8 == 0 &&
         alignment(up.const_data_ptr()) >= 16;
}

void linear_gelu_forward(at::Tensor out, at::Tensor up, at::Tensor x, at::Tensor w, at::Tensor bias) {
  const at::ScalarType dtype = check_forward(up, x, w);
  const int64_t N = x.size(0), F = w.size(0);
  check_tensor(out, "out", {N, F}, dtype);
  check_tensor(up, "up", {N, F}, dtype);
  check_tensor(bias, "bias", {F}, dtype);
  if (out.numel() == 0) return;
  PARTITA_CHECK(has_gelu_products(up) && x.size(1) > 0, "this product has no GELU in it");
  run(forward_product(out, x, w, false, Epilogue::gelu),
      {.a = data(w), .b = data(x), .out = mutable_data(out), .bias = data(bias), .aux = mutable_data(up)});
}

void linear_gelu_backward_input(at::Tensor d_up, at::Tensor d_y, at::Tensor w, at::Tensor up) {
  const at::ScalarType dtype = check_activation(d_y, "d_y");
  PARTITA_CHECK(d_y.dim() == 2 && w.defined() && w.dim() == 2, "d_y and w must be matrices");
  const int64_t N = d_y.size(0), C = w.size(0), F = w.size(1);
  check_columns(d_y, "d_y", {N, C}, dtype);
  check_tensor(w, "w", {C, F}, dtype);
  check_tensor(d_up, "d_up", {N, F}, dtype);
  check_tensor(up, "up", {N, F}, dtype);
  if (d_up.numel() == 0) return;
  PARTITA_CHECK(has_gelu_products(up) && C > 0, "this product has no GELU in it");
  PARTITA_CHECK(d_up.const_data_ptr() != up.const_data_ptr(), "d_up may not be up");
  run(input_product(d_up, d_y, w, false, Epilogue::gelu_backward),
      {.a = data(w), .b = data(d_y), .out = mutable_data(d_up), .aux = mutable_data(up)});
}

std::string Product::text() const {
  static constexpr std::array kNames{"", " bias", " gelu", " gelu_backward"};
  return fmt::format("{} {} {} to {} {}{} rows {} {} {}{}{} align {} {} {}", m, n, k, at::toString(dtype),
                     at::toString(out_dtype), transposed_a ? " ta" : "", row_a, row_b, row_out,
                     transposed_b ? " tb" : "", kNames[static_cast<size_t>(epilogue)], align_a, align_b, align_out) +
         (accumulate ? " add" : "");
}

std::vector<Product> products() {
  const std::lock_guard lock(plans().mutex);
  std::vector<Product> all;
  for (const auto& [product, plan] : plans().made) all.push_back(product);
  return all;
}

int candidates(const Product& product) {
  const std::lock_guard lock(plans().mutex);
  const auto found = plans().made.find(product);
  return found == plans().made.end() ? 0 : found->second.candidates();
}

void choose_candidate(const Product& product, int candidate) {
  const std::lock_guard lock(plans().mutex);
  const auto found = plans().made.find(product);
  if (found == plans().made.end()) fail("product {} has not been made yet: nothing to choose from", product.text());
  if (candidate < 0 || candidate >= found->second.candidates())
    fail("product {} has {} algorithms, there is no number {}", product.text(), found->second.candidates(), candidate);
  found->second.choose(candidate);
}

}  // namespace partita::cuda
