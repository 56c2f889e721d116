#include "partita/profile/kernel_families.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partita/config/optimizer_place.h"

namespace partita::internal {
namespace {

// FLOP/s on a 700 W H100 SXM inside a training step.
constexpr double kFp8Rate = 1400e12;  // fp8 matmuls with fast accumulation: 1280-1570 TFLOP/s
// Causal attention in cuDNN, bf16, counting half the square: narrow heads, heads of 128 channels.
constexpr double kNarrowForward = 320e12, kNarrowBackward = 250e12, kWideForward = 490e12, kWideBackward = 390e12;

struct Rule {
  std::string_view part, family;
};
// Lower-case name fragments; the first match decides.
constexpr std::array kRules{Rule{"nccl", family::kCollectives},
                            Rule{"elements<", family::kOptimizer},  // of optimizer.cuh
                            Rule{"query_gradient_kernel", family::kAttentionBackward},
                            Rule{"key_value_gradient_kernel", family::kAttentionBackward},
                            Rule{"compute_dot_do_o", family::kAttentionBackward},  // of cuDNN, like the next two
                            Rule{"convert_dq", family::kAttentionBackward},
                            Rule{"fmha_reduce", family::kAttentionBackward},
                            Rule{"forward_kernel", family::kAttentionForward},
                            Rule{"append_kernel", family::kAttentionForward},
                            Rule{"cudnn_seed_kernel", family::kAttentionForward},
                            Rule{"add_norm_backward_kernel", family::kNormBackward},
                            Rule{"add_partial_sums_kernel", family::kOptimizer},
                            Rule{"add_norm_kernel", family::kNormForward},
                            Rule{"norm_recompute_kernel", family::kNormForward},
                            Rule{"swiglu_backward_kernel", family::kActivationBackward},
                            Rule{"swiglu_kernel", family::kActivationForward},
                            Rule{"gelu_kernel", family::kActivationForward},
                            Rule{"column_sums_kernel", family::kBiasGradients},
                            Rule{"rope_kernel", family::kRope},
                            Rule{"cross_entropy_kernel", family::kCrossEntropy},
                            Rule{"embedding_kernel", family::kEmbedding},
                            Rule{"radixsort", family::kEmbedding},  // sorts by token
                            Rule{"reverse_indices", family::kEmbedding},
                            Rule{"scatter_kernel", family::kEmbedding},
                            Rule{"join_kernel", family::kEmbedding},
                            Rule{"dropout_kernel", family::kDropout},
                            Rule{"squares_kernel", family::kOptimizer},
                            Rule{"quantize_kernel", family::kCasts},
                            Rule{"measure_kernel", family::kCasts},
                            Rule{"measure_rest_kernel", family::kCasts},
                            Rule{"cast_kernel", family::kCasts},
                            Rule{"fillfunctor", family::kCopies},
                            Rule{"copy", family::kCopies},
                            Rule{"memcpy", family::kCopies},
                            Rule{"memset", family::kCopies}};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_product(std::string_view name) {
  return name.starts_with("nvjet") || contains(name, "gemm") || contains(name, "cutlass") || contains(name, "splitk");
}

// Hopper kernel names end in _TNT or similar; older ones contain _tn_. The first two letters describe A and B.
std::string_view product_family(std::string_view name) {
  if (name.starts_with("nvjet_q") || contains(name, "e4m3") || contains(name, "e5m2")) return family::kFp8Products;
  const auto operands = [&](std::string_view letters) {
    const std::string infix = "_" + std::string(letters) + "_";
    return contains(name, infix) || name.ends_with("_" + std::string(letters) + "t") ||
           name.ends_with("_" + std::string(letters) + "n") || contains(name, "_" + std::string(letters) + "t_") ||
           contains(name, "_" + std::string(letters) + "n_");
  };
  if (contains(name, "splitk")) return family::kWeightGradients;  // sums the partial results of a long k
  if (operands("tn")) return family::kProductsForward;
  if (operands("nn")) return family::kInputGradients;
  if (operands("nt")) return family::kWeightGradients;
  return family::kOther;
}

// Counts for one step; memory-bound kernels are counted as accesses times bytes per element.
class Amounts {
 public:
  explicit Amounts(const StepWork& work)
      : w_(work),
        m_(work.model),
        tokens_(static_cast<double>(work.tokens)),
        bytes_(work.precision == DType::fp32 ? 4 : 2),
        width_(static_cast<double>(m_.hidden_size)),
        vocabulary_(w_.head ? size(w_.division.head, m_.vocab_size) : 0) {}

  std::map<std::string_view, FamilyWork> operator()() {
    add_products();
    add_attention();
    add_norms();
    add_activation();
    add_rest();
    return families_;
  }

 private:
  // The share of the rows that a rank computes of a replicated matrix; of a divided one it computes all.
  struct Rows {
    double stream = 1;  // where its side in the residual stream is computed: output in forward, input gradient
    double bias = 1, weights = 1;  // of gradients
  };
  // What this rank has of a layer.
  struct Layer {
    double heads, kv, inner;
    Rows attention, mlp;
    bool backward, again;  // has a backward pass, which recomputes the layer in full
  };

  [[nodiscard]] bool llama() const { return m_.kind == ModelKind::llama; }
  [[nodiscard]] int64_t layers() const { return w_.layers < 0 ? m_.layers : w_.layers; }
  [[nodiscard]] double size(bool divided, int64_t whole) const {
    return static_cast<double>(whole) / static_cast<double>(divided ? w_.tensor : 1);
  }
  [[nodiscard]] Rows rows(bool divided, bool fp8) const {
    if (divided) return {};
    const double part = 1 / static_cast<double>(w_.tensor);
    return {.stream = w_.sequence ? part : 1, .bias = part, .weights = fp8 ? 1 : part};
  }
  [[nodiscard]] Layer layer(int64_t index) const {
    const auto [attention, mlp] = w_.division.layer(index);
    const int64_t kv = attention ? std::max(m_.key_value_heads(), w_.tensor) : m_.key_value_heads();
    const bool backward = index >= frozen_layers();
    return {.heads = size(attention, m_.heads * m_.head_size()),
            .kv = size(attention, kv * m_.head_size()),
            .inner = size(mlp, m_.ffn_size()),
            .attention = rows(attention, w_.fp8),
            .mlp = rows(mlp, w_.fp8),
            .backward = backward,
            .again = backward && (w_.recompute == Recompute::full || index < w_.recompute_full_layers)};
  }
  // The number of leading layers without a backward pass.
  [[nodiscard]] int64_t frozen_layers() const {
    return std::clamp<int64_t>(w_.first_trained - (w_.embedding ? 1 : 0), 0, layers());
  }

  // `accesses` per element, in the compute dtype.
  void memory(std::string_view family, double accesses, double elements) {
    families_[family].bytes += accesses * bytes_ * elements;
  }

  void add_products() {
    const auto adapters = static_cast<double>(w_.adapter_weights);
    double forward = 0, inputs = 0, trained = adapters - static_cast<double>(w_.frozen_weights);
    for (int64_t l = 0; l < layers(); ++l) {
      const Layer y = layer(l);
      const double qkv = width_ * (y.heads + 2 * y.kv), output = y.heads * width_;
      const double up = width_ * y.inner * (llama() ? 2 : 1), down = width_ * y.inner;
      const double attention = qkv + y.attention.stream * output;
      forward += attention + up + y.mlp.stream * down;
      // Recomputation omits the last matmul of a layer, whose output no gradient needs.
      if (y.again)
        forward += attention + up;
      else if (y.backward && w_.recompute == Recompute::mlp)
        forward += up;
      if (y.backward) inputs += y.attention.stream * qkv + output + y.mlp.stream * up + down;
      trained += y.attention.weights * (qkv + output) + y.mlp.weights * (up + down);
    }
    const Rows of_head = rows(w_.division.head, false);
    const double table = width_ * vocabulary_, head = of_head.stream * table;
    // Adapters stay in bf16, like the head. Frozen matrices are attributed to the fp8 part first; adapters are the
    // smallest part.
    const double wide_trained = w_.fp8 ? std::min(adapters, trained) : trained;
    const double wide = w_.fp8 ? 0 : 1, flops = 2 * tokens_;
    if (w_.fp8)
      families_[family::kFp8Products] = {.flops = (forward + inputs + trained - wide_trained) * flops,
                                         .speed = kFp8Rate / kMatmulRate};
    families_[family::kProductsForward].flops = (wide * forward + adapters + head) * flops;
    families_[family::kInputGradients].flops = (wide * inputs + adapters + head) * flops;
    families_[family::kWeightGradients].flops = (wide_trained + (w_.frozen_head ? 0 : of_head.weights * table)) * flops;
  }

  // 2 matmuls over half the square in forward, 5 in backward.
  void add_attention() {
    double forward = 0, backward = 0;
    for (int64_t l = 0; l < layers(); ++l) {
      const Layer y = layer(l);
      const double flops = 2 * tokens_ * static_cast<double>(w_.length) * y.heads;
      forward += (y.again ? 2 : 1) * flops;
      if (y.backward) backward += 2.5 * flops;
    }
    const bool wide = m_.head_size() > 96;
    families_[family::kAttentionForward] = {.flops = forward,
                                            .speed = (wide ? kWideForward : kNarrowForward) / kMatmulRate};
    families_[family::kAttentionBackward] = {.flops = backward,
                                             .speed = (wide ? kWideBackward : kNarrowBackward) / kMatmulRate};
  }

  void add_norms() {
    const double elements = tokens_ * width_ / static_cast<double>(w_.sequence ? w_.tensor : 1), last = w_.head ? 1 : 0;
    const auto backward = static_cast<double>(layers() - frozen_layers());
    memory(family::kNormForward, 4, (2 * static_cast<double>(layers()) + last) * elements);
    if (w_.recompute != Recompute::none) memory(family::kNormForward, 2, 2 * backward * elements);
    memory(family::kNormBackward, 4, (2 * backward + last) * elements);
  }

  // In half precision, GELU is fused into the matmuls.
  void add_activation() {
    double forward = 0, again = 0, backward = 0, rope = 0, biases = -static_cast<double>(w_.frozen_biases);
    for (int64_t l = 0; l < layers(); ++l) {
      const Layer y = layer(l);
      forward += y.inner;
      if (w_.recompute == Recompute::none ? y.again : y.backward) again += y.inner;
      if (y.backward) backward += y.inner;
      rope += (1 + (y.backward ? 1 : 0) + (y.again ? 1 : 0)) * (y.heads + y.kv);
      biases += y.attention.bias * (y.heads + 2 * y.kv) + y.mlp.bias * y.inner;
    }
    if (llama()) {
      memory(family::kActivationForward, 3, (forward + again) * tokens_);
      memory(family::kActivationBackward, 5, backward * tokens_);
      memory(family::kRope, 2, rope * tokens_);
      return;
    }
    if (again > 0) memory(family::kActivationForward, 2, again * tokens_);
    if (biases > 0) memory(family::kBiasGradients, 1, biases * tokens_);
  }

  void add_rest() {
    if (w_.head) memory(family::kCrossEntropy, 2, rows(w_.division.head, false).stream * tokens_ * vocabulary_);
    // Forward: read and write. Backward: read, plus fp32 read and write.
    if (w_.embedding) memory(family::kEmbedding, w_.first_trained > 0 ? 2 : 7, tokens_ * width_);
    const bool wide_gradient = w_.micro_batches > 1 || w_.precision == DType::fp32;
    const double gradient = wide_gradient ? 4 : 2;
    // Master weight and two moments are read and written, the gradient is read twice (norm, update), the weight is
    // written.
    const double states = w_.states == DType::fp32 ? 6 * 4 + (w_.precision == DType::fp32 ? 0 : 2) : 6 * 2;
    families_[family::kOptimizer].bytes = (states + 2 * gradient) * static_cast<double>(w_.updated);
  }

  const StepWork& w_;
  const ModelConfig& m_;
  double tokens_, bytes_, width_, vocabulary_;
  std::map<std::string_view, FamilyWork> families_;
};

// What a pipeline rank has of the model: the layers, embedding and head whose parameters it holds.
void keep_own(StepWork& work, const UnitPlan& plan) {
  std::set<int64_t> layers;
  work.embedding = work.head = false;
  for (const Unit& unit : plan.units)
    for (const ParameterSpec& p : unit.layout.parameters) {
      int64_t layer = 0;
      if (p.name.ends_with("attention.qkv.weight")) {
        const char* digits = p.name.data() + std::string_view("layers.").size();
        std::from_chars(digits, p.name.data() + p.name.size(), layer);
        layers.insert(layer);
      }
      work.embedding =
          work.embedding || (p.name == "embedding.token.weight" && p.stage_copy != ParameterSpec::Copy::second);
      work.head = work.head || p.name == "final_norm.weight";
    }
  const int64_t full = work.recompute_full_layers;
  work.layers = std::ssize(layers);
  work.recompute_full_layers = std::ranges::count_if(layers, [full](int64_t layer) { return layer < full; });
  std::vector<LayerDivision> own;
  for (const int64_t layer : layers) own.push_back(work.division.layer(layer));
  work.division.layers = std::move(own);
}

}  // namespace

std::string_view kernel_family(std::string_view kernel) {
  std::string name(kernel);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (contains(name, "sdpa")) return contains(name, "bprop") ? family::kAttentionBackward : family::kAttentionForward;
  if (is_product(name)) return product_family(name);
  if (contains(name, "partita::") && contains(name, "::reduce_kernel")) return family::kCollectives;
  for (const Rule& rule : kRules)
    if (contains(name, rule.part)) return rule.family;
  return family::kOther;
}

StepWork step_work(const Config& c, int ranks, const UnitPlan& plan) {
  const int64_t micro_batches = accumulation_steps(c, ranks);
  StepWork work{.model = c.model,
                .length = c.train.sequence_length,
                .tokens = micro_batches * tokens_of_micro_batch(c),
                .micro_batches = micro_batches,
                .precision = c.precision.compute,
                .states = c.precision.states,
                .fp8 = c.precision.fp8 != Fp8Recipe::off,
                .recompute = c.memory.recompute,
                .recompute_full_layers = c.memory.recompute_full_layers,
                .first_trained = first_trainable_block(plan)};
  const std::string_view head = c.model.has_tied_head() ? "embedding.token.weight" : "head.weight";
  work.tensor = c.parallel.tensor;
  work.sequence = work.tensor > 1 && tensor_split(c, 0).splits_rows(tokens_of_micro_batch(c));
  if (work.tensor > 1) work.division = tensor_division(c);
  if (c.parallel.pipeline > 1) keep_own(work, plan);
  int64_t trained = 0;
  for (const Unit& unit : plan.units)
    for (const ParameterSpec& p : unit.layout.parameters) {
      const bool of_layer = p.name.starts_with("layers."), matrix = p.shape.size() > 1;
      // Gradients of replicated matrices are of an equal part of the rows, as if they were divided; in fp8, of all rows
      // on the first rank.
      const int64_t sharers = p.split == Split::none && !p.adapter ? work.tensor : 1;
      if (p.adapter) work.adapter_weights += p.local_count();
      if (p.trainable) {
        trained += p.local_count();
      } else if (of_layer && matrix) {
        work.frozen_weights += p.local_count() / (work.fp8 ? 1 : sharers);
      } else if (of_layer && (p.name.ends_with("qkv.bias") || p.name.ends_with("up.bias"))) {
        work.frozen_biases += p.local_count() / sharers;
      } else if (p.name == head) {
        work.frozen_head = true;
      }
    }
  // The CPU updates what is in host memory. (Units are not cut: this is the share that was asked for.)
  const double on_device = 1 - optimizer_place(c.memory.optimizer).off_device();
  const int64_t own = c.parallel.zero_stage > 0 ? trained / sharding_ranks(c, ranks) : trained;
  work.updated = static_cast<int64_t>(on_device * static_cast<double>(own));
  return work;
}

std::map<std::string_view, FamilyWork> family_work(const StepWork& work) { return Amounts(work)(); }

std::map<std::string_view, double> family_floors(const StepWork& work) {
  std::map<std::string_view, double> floors;
  for (const auto& [family, amount] : family_work(work))
    if (amount.flops == 0 || work.precision != DType::fp32)
      floors[family] = amount.flops / (amount.speed * kMatmulRate) + amount.bytes / kDeviceMemoryRate;
  return floors;
}

}  // namespace partita::internal
