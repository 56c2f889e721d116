#include "partita/ops/cuda/matmul_plan.h"

#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "partita/base/log.h"
#include "partita/ops/cuda/call_times.h"
#include "partita/ops/cuda/check.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
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
    case at::kFloat8_e4m3fn:
      return CUDA_R_8F_E4M3;
    case at::kFloat8_e5m2:
      return CUDA_R_8F_E5M2;
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

// One handle per device; the caller holds the lock of plans().
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

// An algorithm as text: the bytes of cuBLASLt's struct.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const auto byte : std::bit_cast<std::array<uint8_t, sizeof algorithm>>(algorithm))
    text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> parse_algorithm(const std::string& text) {
  std::array<uint8_t, sizeof(cublasLtMatmulAlgo_t)> bytes{};
  if (text.size() != 2 * bytes.size()) return {};
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char* end = text.data() + 2 * i + 2;
    if (std::from_chars(end - 2, end, bytes[i], 16).ptr != end) return {};
  }
  return std::bit_cast<cublasLtMatmulAlgo_t>(bytes);
}

// fp8 operands each have their own dtype.
bool is_fp8(const Product& p) { return p.dtype_b != at::ScalarType::Undefined; }
at::ScalarType dtype_of_b(const Product& p) { return is_fp8(p) ? p.dtype_b : p.dtype; }

// Descriptors and algorithms of one matmul.
class Plan {
 public:
  Plan(const Product& p, const Operands& o)
      : a_(p.transposed_a ? layout(p.dtype, p.k, p.m, p.row_a) : layout(p.dtype, p.m, p.k, p.row_a)),
        b_(p.transposed_b ? layout(dtype_of_b(p), p.n, p.k, p.row_b) : layout(dtype_of_b(p), p.k, p.n, p.row_b)),
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
    // fp8 with fast accumulation: 4-13% faster, and more precise than the fp8 operands.
    if (is_fp8(p)) set(description_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    set_operands(o);
    find_algorithms(p);
  }

  // Selects the algorithm with this text for future calls. False: cuBLASLt rejects it for this matmul.
  [[nodiscard]] bool choose(const Product& p, const std::string& text) {
    const std::optional<cublasLtMatmulAlgo_t> algorithm = parse_algorithm(text);
    if (!algorithm) return false;
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle(p.device), description_.get(), a_.get(), b_.get(),
                                                          out_.get(), out_.get(), &*algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > static_cast<size_t>(kMatmulWorkspace)) return false;
    chosen_ = *algorithm;
    return true;
  }

  void run(const Product& p, const Operands& o, int trial) {
    if (trial < 0 || is_recorded(stream(p))) return run(p, o, chosen_);
    const auto candidate = static_cast<size_t>(trial) % algorithms_.size();
    times_.measure(static_cast<int>(candidate), stream(p), [&] { run(p, o, algorithms_[candidate]); });
  }

  [[nodiscard]] bool was_tried() const { return !times_.empty(); }
  [[nodiscard]] MatmulTimes take_times(const Product& p) {
    MatmulTimes times{.product = p.text(), .algorithms = {}, .milliseconds = times_.take()};
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms_) times.algorithms.push_back(text_of(algorithm));
    times.milliseconds.resize(algorithms_.size());
    return times;
  }

 private:
  // A captured call cannot be timed, nor vary from step to step.
  static bool is_recorded(cudaStream_t stream) {
    cudaStreamCaptureStatus status{};
    PARTITA_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
    return status != cudaStreamCaptureStatusNone;
  }

  static cudaStream_t stream(const Product& p) {
    return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(p.device));
  }

  void set_operands(const Operands& o) {
    if (o.bias != nullptr) set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
    if (o.aux != nullptr) set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, o.aux);
    if (o.scale_a != nullptr) set(description_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, o.scale_a);
    if (o.scale_b != nullptr) set(description_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, o.scale_b);
  }

  void run(const Product& p, const Operands& o, const cublasLtMatmulAlgo_t& algorithm) {
    set_operands(o);
    const float beta = p.accumulate ? 1 : 0;
    PARTITA_CUBLAS(cublasLtMatmul(handle(p.device), description_.get(), &o.scale, o.a, a_.get(), o.b, b_.get(), &beta,
                                  o.out, out_.get(), o.out, out_.get(), &algorithm, workspace(kMatmulWorkspace),
                                  static_cast<size_t>(kMatmulWorkspace), stream(p)));
  }

  void find_algorithms(const Product& p) {
    cublasLtMatmulPreference_t made = nullptr;
    PARTITA_CUBLAS(cublasLtMatmulPreferenceCreate(&made));
    const Preference preference(made);
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kMatmulWorkspace));
    // Split-k partial sums are added in fp32, not in the output dtype.
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
    chosen_ = algorithms_.front();
  }

  MatrixLayout a_, b_, out_;
  Description description_;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;  // candidates
  cublasLtMatmulAlgo_t chosen_{};
  CallTimes times_;  // from trials
};

struct Plans {
  std::mutex mutex;
  std::map<Product, Plan> made;
  int trial = -1;                             // round; below 0: no trial
  std::map<std::string, std::string> wanted;  // algorithms by Product::text()

  void choose_wanted(const Product& p, Plan& plan) const {
    const auto found = wanted.find(p.text());
    if (found != wanted.end() && !plan.choose(p, found->second))
      log::warn("cuBLASLt does not take the algorithm that was chosen for product {}: its first candidate runs",
                found->first);
  }
};

Plans& plans() {
  static auto* all = new Plans;  // never destroyed: the library may be gone at exit
  return *all;
}

}  // namespace

int alignment(const void* address) {
  return static_cast<int>(
      std::min<uintptr_t>(256, uintptr_t{1} << std::countr_zero(reinterpret_cast<uintptr_t>(address))));
}

void run_product(Product p, const Operands& o) {
  p.device = c10::cuda::current_device();
  p.align_a = alignment(o.a), p.align_b = alignment(o.b), p.align_out = alignment(o.out);
  const std::lock_guard lock(plans().mutex);
  auto found = plans().made.find(p);
  if (found == plans().made.end()) {
    found = plans().made.emplace(p, Plan(p, o)).first;
    plans().choose_wanted(p, found->second);
  }
  found->second.run(p, o, plans().trial);
}

std::string Product::text() const {
  static constexpr std::array kNames{"", " bias", " gelu", " gelu_backward"};
  return fmt::format("{} {} {}{} to {} {}{} rows {} {} {}{}{} align {} {} {}", m, n, k, at::toString(dtype),
                     is_fp8(*this) ? fmt::format(" x {}", at::toString(dtype_b)) : "", at::toString(out_dtype),
                     transposed_a ? " ta" : "", row_a, row_b, row_out, transposed_b ? " tb" : "",
                     kNames[static_cast<size_t>(epilogue)], align_a, align_b, align_out) +
         (accumulate ? " add" : "");
}

std::string matmul_library(at::Device device) {
  cudaDeviceProp properties{};
  PARTITA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index()));
  return fmt::format("cuBLASLt {}, {}", cublasLtGetVersion(), properties.name);
}

void set_trial(int round) {
  const std::lock_guard lock(plans().mutex);
  plans().trial = round;
}

std::vector<MatmulTimes> take_times() {
  const std::lock_guard lock(plans().mutex);
  std::vector<MatmulTimes> all;
  for (auto& [product, plan] : plans().made)
    if (plan.was_tried()) all.push_back(plan.take_times(product));
  std::ranges::sort(all, {}, &MatmulTimes::product);
  return all;
}

void use_algorithms(std::span<const MatmulChoice> choices) {
  const std::lock_guard lock(plans().mutex);
  for (const MatmulChoice& choice : choices) plans().wanted[choice.product] = choice.algorithm;
  for (auto& [product, plan] : plans().made) plans().choose_wanted(product, plan);
}

}  // namespace partita::internal::cuda
