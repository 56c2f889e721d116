#include "partita/profile/kernel_families.h"

#include <gtest/gtest.h>

#include <utility>

#include "partita/config/frozen.h"
#include "partita/models/model.h"

namespace partita::internal {
namespace {

TEST(KernelFamily, GoesByName) {
  const std::pair<const char*, std::string_view> cases[] = {
      {"nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT", family::kProductsForward},
      {"nvjet_hsh_192x192_64x4_2x1_v_bz_coopB_bias_TNN", family::kProductsForward},
      {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", family::kInputGradients},
      {"nvjet_tss_128x256_64x4_1x2_h_bz_coopA_NTN", family::kWeightGradients},
      {"nvjet_tst_192x192_64x4_2x1_v_bz_splitK_NNT", family::kWeightGradients},
      {"nvjet_qqtst_128x256_128x4_2x1_v_bz_coopA_TNT", family::kFp8Products},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1", family::kProductsForward},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize64x64x64_cublas", family::kInputGradients},
      {"sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128", family::kFp8Products},
      {"ampere_sgemm_128x64_nt", family::kOther},
      {"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nt_align1>(cutlass_80::Params)",
       family::kWeightGradients},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(int)", family::kWeightGradients},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_128x128x64_4x1x1_kernel0_0",
       family::kAttentionForward},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_31_64x128x64_4x1x1_kernel0_0",
       family::kAttentionBackward},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", family::kCollectives},
      {"void partita::(anonymous namespace)::reduce_kernel<float, c10::BFloat16>(float*, long)", family::kCollectives},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)", family::kOther},
      {"void partita::cuda::(anonymous namespace)::add_norm_kernel<c10::BFloat16, 4>()", family::kNormForward},
      {"void partita::cuda::(anonymous namespace)::add_norm_backward_kernel<c10::BFloat16>()", family::kNormBackward},
      {"void partita::cuda::(anonymous namespace)::swiglu_kernel<c10::BFloat16>()", family::kActivationForward},
      {"void partita::cuda::(anonymous namespace)::swiglu_backward_kernel<c10::BFloat16>()",
       family::kActivationBackward},
      {"void partita::cuda::(anonymous namespace)::column_sums_kernel<c10::BFloat16, false, true>()",
       family::kBiasGradients},
      {"void partita::cuda::(anonymous namespace)::add_column_sums_kernel<4>()", family::kBiasGradients},
      {"void partita::cuda::(anonymous namespace)::rope_kernel<c10::BFloat16>()", family::kRope},
      {"void partita::cuda::(anonymous namespace)::cross_entropy_kernel<c10::BFloat16>()", family::kCrossEntropy},
      {"void partita::cuda::(anonymous namespace)::embedding_kernel<c10::BFloat16>()", family::kEmbedding},
      {"void partita::cuda::(anonymous namespace)::scatter_kernel<float>()", family::kEmbedding},
      {"void partita::cuda::step_kernel<float, c10::BFloat16, float, true, AdamWRule>(partita::cuda::Elements<float, "
       "c10::BFloat16, float>, AdamWRule)",
       family::kOptimizer},
      {"void partita::cuda::(anonymous namespace)::measure_kernel<float>(partita::cuda::Elements<float, float, float>)",
       family::kOptimizer},
      {"void partita::cuda::(anonymous namespace)::measure_kernel<c10::BFloat16>(float*, c10::BFloat16 const*, long)",
       family::kCasts},
      {"void partita::cuda::(anonymous namespace)::squares_kernel<float>(float const*, long, double*)",
       family::kOptimizer},
      {"void partita::cuda::(anonymous namespace)::cast_kernel<c10::BFloat16, float>()", family::kCasts},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<double>>()", family::kCopies},
      {"void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>()", family::kCopies},
      {"something_new", family::kOther},
      {"", family::kOther}};
  for (const auto& [name, family] : cases) EXPECT_EQ(kernel_family(name), family) << name;
}

// Beside what was measured in a step on an H100: within the 10% that a floor lies below it, 25% for the embedding.
class Floors : public testing::Test {
 protected:
  // What a family takes, in microseconds a call.
  double microseconds(std::string_view family, double calls) const { return 1e6 * floors.at(family) / calls; }
  static void expect_below(double floor, double measured, double share = 0.1) {
    EXPECT_LE(floor, 1.03 * measured);
    EXPECT_GE(floor, (1 - share) * measured);
  }
  std::map<std::string_view, double> floors;
};

StepWork llama_1b() {
  return {.model = {.kind = ModelKind::llama,
                    .layers = 22,
                    .hidden_size = 2048,
                    .heads = 32,
                    .kv_heads = 4,
                    .ffn_hidden_size = 5632,
                    .vocab_size = 32000,
                    .max_length = 2048},
          .length = 2048,
          .tokens = 16384,
          .updated = 1'100'000'000};
}

TEST_F(Floors, OfLlama) {
  floors = family_floors(llama_1b());
  expect_below(microseconds(family::kNormForward, 45), 91);
  expect_below(microseconds(family::kNormBackward, 45), 98);
  expect_below(microseconds(family::kActivationForward, 22), 184);
  expect_below(microseconds(family::kActivationBackward, 22), 305);
  expect_below(microseconds(family::kRope, 44), 52);
  expect_below(microseconds(family::kEmbedding, 1), 56 + 197, 0.4);
  expect_below(1e-3 * microseconds(family::kOptimizer, 1), 10.4 + 0.71);
  expect_below(1e-3 * microseconds(family::kAttentionForward, 1), 9.5);
  expect_below(1e-3 * microseconds(family::kAttentionBackward, 1), 30.6);
  // 43.1, 45.0 and 45.1 ms for the layers, 9.4 for the head's three and cross-entropy.
  const double products = floors.at(family::kProductsForward) + floors.at(family::kInputGradients) +
                          floors.at(family::kWeightGradients) + floors.at(family::kCrossEntropy);
  expect_below(1e3 * products, 43.1 + 45.0 + 45.1 + 9.4);
  EXPECT_FALSE(floors.contains(family::kCopies));
  EXPECT_FALSE(floors.contains(family::kBiasGradients));
}

TEST_F(Floors, OfGpt2) {
  floors =
      family_floors({.model = {.layers = 12, .hidden_size = 768, .heads = 12, .vocab_size = 50304, .max_length = 1024},
                     .length = 1024,
                     .tokens = 65536,
                     .updated = 124'475'904});
  expect_below(microseconds(family::kNormForward, 25), 138);
  expect_below(microseconds(family::kNormBackward, 25), 147);
  expect_below(8192.0 / 65536 * microseconds(family::kCrossEntropy, 1), 558);
  expect_below(1e-3 * microseconds(family::kOptimizer, 1), 1.18 + 0.08);
  expect_below(1e-3 * microseconds(family::kAttentionForward, 1), 4.5, 0.2);
  expect_below(1e-3 * microseconds(family::kAttentionBackward, 1), 15.8, 0.25);
  EXPECT_FALSE(floors.contains(family::kActivationForward));
  EXPECT_FALSE(floors.contains(family::kRope));
  EXPECT_TRUE(floors.contains(family::kBiasGradients));
}

TEST_F(Floors, CountWhatIsMadeAgain) {
  StepWork work = llama_1b();
  floors = family_floors(work);
  work.recompute = Recompute::full;
  const auto full = family_floors(work);
  work.recompute = Recompute::none, work.recompute_full_layers = 22;
  EXPECT_EQ(family_floors(work).at(family::kProductsForward), full.at(family::kProductsForward));
  work.recompute = Recompute::mlp, work.recompute_full_layers = 0;
  const auto mlp = family_floors(work);
  const auto layer = [](double share) { return share * 22 * 2 * 16384 / 700e12; };
  EXPECT_NEAR(full.at(family::kProductsForward) - floors.at(family::kProductsForward),
              layer(2048 * 2560 + 2048 * 2048 + 2048 * 11264), 1e-9);
  EXPECT_NEAR(mlp.at(family::kProductsForward) - floors.at(family::kProductsForward), layer(2048 * 11264), 1e-9);
  EXPECT_DOUBLE_EQ(full.at(family::kAttentionForward), 2 * floors.at(family::kAttentionForward));
  EXPECT_EQ(full.at(family::kAttentionBackward), floors.at(family::kAttentionBackward));
  EXPECT_EQ(full.at(family::kInputGradients), floors.at(family::kInputGradients));
}

// In 8 bits the layers' products are of a family of their own, and the head's alone are left in bf16.
TEST_F(Floors, OfFp8) {
  StepWork work = llama_1b();
  work.recompute = Recompute::mlp;
  floors = family_floors(work);
  EXPECT_FALSE(floors.contains(family::kFp8Products));
  work.fp8 = true;
  const auto fp8 = family_floors(work);
  const auto products = [](const auto& all) {
    return all.at(family::kProductsForward) + all.at(family::kInputGradients) + all.at(family::kWeightGradients);
  };
  const double head = 3.0 * 2048 * 32000 * 2 * 16384 / 700e12;
  EXPECT_NEAR(products(fp8), head, 1e-9);
  EXPECT_NEAR(fp8.at(family::kFp8Products), (products(floors) - head) / 2, 1e-9);
  EXPECT_EQ(fp8.at(family::kAttentionForward), floors.at(family::kAttentionForward));
}

TEST_F(Floors, OfFp32HaveNoProducts) {
  StepWork work = llama_1b();
  floors = family_floors(work);
  work.precision = DType::fp32;
  const auto wide = family_floors(work);
  EXPECT_FALSE(wide.contains(family::kProductsForward));
  EXPECT_FALSE(wide.contains(family::kAttentionBackward));
  EXPECT_DOUBLE_EQ(wide.at(family::kRope), 2 * floors.at(family::kRope));
}

constexpr double kLayer = 2048 * 2560 + 2048 * 2048 + 3 * 2048 * 5632;  // matrix elements of a layer of llama_1b
double seconds_of(double elements) { return elements * 2 * 16384 / 700e12; }

// Beside a frozen model no product gives a gradient of its matrices, but gradients go through all of them.
TEST_F(Floors, OfAdapters) {
  StepWork work = llama_1b();
  const auto all = family_floors(work);
  work.first_trained = 1, work.adapter_weights = 2'252'800, work.frozen_weights = static_cast<int64_t>(22 * kLayer);
  work.frozen_head = true;
  floors = family_floors(work);
  EXPECT_NEAR(floors.at(family::kWeightGradients), seconds_of(2'252'800), 1e-12);
  for (const auto name : {family::kProductsForward, family::kInputGradients})
    EXPECT_NEAR(floors.at(name) - all.at(name), seconds_of(2'252'800), 1e-12) << name;
  EXPECT_EQ(floors.at(family::kAttentionBackward), all.at(family::kAttentionBackward));
  EXPECT_DOUBLE_EQ(floors.at(family::kEmbedding), all.at(family::kEmbedding) * 2 / 7);
  work.fp8 = true;
  const auto fp8 = family_floors(work);
  EXPECT_NEAR(fp8.at(family::kFp8Products), seconds_of(2 * 22 * kLayer) / 2, 1e-9);
  EXPECT_NEAR(fp8.at(family::kWeightGradients), seconds_of(2'252'800), 1e-12);
  EXPECT_NEAR(fp8.at(family::kInputGradients), seconds_of(2'252'800 + 2048 * 32000), 1e-12);
}

// Below the first that is trained there is no backward, and nothing is made again.
TEST_F(Floors, OfFrozenLayers) {
  StepWork work = llama_1b();
  const auto all = family_floors(work);
  work.first_trained = 3, work.frozen_weights = static_cast<int64_t>(2 * kLayer);
  floors = family_floors(work);
  for (const auto name : {family::kInputGradients, family::kWeightGradients})
    EXPECT_NEAR(all.at(name) - floors.at(name), seconds_of(2 * kLayer), 1e-9) << name;
  for (const auto name : {family::kProductsForward, family::kAttentionForward, family::kNormForward})
    EXPECT_EQ(floors.at(name), all.at(name)) << name;
  for (const auto name : {family::kAttentionBackward, family::kActivationBackward})
    EXPECT_NEAR(floors.at(name), all.at(name) * 20 / 22, 1e-9) << name;
  EXPECT_NEAR(floors.at(family::kNormBackward), all.at(family::kNormBackward) * 41 / 45, 1e-9);
  EXPECT_NEAR(floors.at(family::kRope), all.at(family::kRope) * 42 / 44, 1e-9);
  const auto again = [&](Recompute mode, int64_t full_layers) {
    work.recompute = mode, work.recompute_full_layers = full_layers;
    return family_floors(work).at(family::kProductsForward) - floors.at(family::kProductsForward);
  };
  const double entry = 2048 * 2560 + 2048 * 2048 + 2048 * 11264;
  EXPECT_NEAR(again(Recompute::full, 0), seconds_of(20 * entry), 1e-9);
  EXPECT_NEAR(again(Recompute::none, 5), seconds_of(3 * entry), 1e-9);
  EXPECT_EQ(again(Recompute::none, 2), 0);
  EXPECT_NEAR(again(Recompute::mlp, 1), seconds_of(20 * 2048 * 11264), 1e-9);
}

// Of blocks [first, end) of the model.
UnitPlan plan_of(const Config& c, size_t first = 0, size_t end = 1000) {
  const FrozenParameters frozen(c.train.freeze, c.lora);
  std::vector<BlockParameters> blocks;
  for (const auto& block :
       make_blocks(c.model, DType::bf16, c.lora, at::kCPU, false, tensor_split(c, 0), {}, false, tensor_division(c))) {
    blocks.push_back({.kind = block->traits().kind, .parameters = block->parameters()});
    for (ParameterSpec& p : blocks.back().parameters) p.trainable = !frozen(p);
  }
  const std::vector<BlockParameters> own(blocks.begin() + static_cast<int64_t>(first),
                                         blocks.begin() + static_cast<int64_t>(std::min(end, blocks.size())));
  return plan_units(own, {.tensor_ranks = static_cast<int>(c.parallel.tensor), .layers_per_unit = 1});
}

TEST(StepWork, IsARanksPart) {
  Config c;
  c.model = llama_1b().model;
  c.train.sequence_length = 128, c.train.micro_batch = 2, c.train.global_batch = 24;
  const UnitPlan plan = plan_of(c);
  const StepWork work = step_work(c, 2, plan);
  EXPECT_EQ(work.tokens, 12 * 128);
  EXPECT_EQ(work.micro_batches, 6);
  EXPECT_EQ(work.updated, parameter_count(c.model));
  EXPECT_FALSE(work.fp8);
  EXPECT_EQ(work.first_trained, 0);
  EXPECT_EQ(work.adapter_weights + work.frozen_weights + work.frozen_biases, 0);
  EXPECT_FALSE(work.frozen_head);
  c.parallel.zero_stage = 1;
  c.precision.fp8 = Fp8Recipe::current;
  EXPECT_EQ(step_work(c, 2, plan).updated, parameter_count(c.model) / 2);
  EXPECT_TRUE(step_work(c, 2, plan).fp8);
  c.memory.optimizer = "host";
  EXPECT_EQ(step_work(c, 2, plan).updated, 0);
}

// Two tensor-parallel ranks have half of each matmul; two stages have half of the layers, and one has the head.
TEST(StepWork, IsAPartOfTheModel) {
  Config c;
  c.model = llama_1b().model;
  c.precision.compute = DType::bf16;
  c.train.sequence_length = 128, c.train.micro_batch = 2, c.train.global_batch = 2;
  const auto floors = [&](int ranks, const UnitPlan& plan) { return family_floors(step_work(c, ranks, plan)); };
  const auto whole = floors(1, plan_of(c));
  c.parallel.tensor = 2;
  const auto half = floors(2, plan_of(c));
  for (const std::string_view family : {family::kProductsForward, family::kInputGradients, family::kWeightGradients,
                                        family::kAttentionForward, family::kNormForward, family::kCrossEntropy})
    EXPECT_NEAR(half.at(family), whole.at(family) / 2, 1e-6 * whole.at(family)) << family;
  c.parallel.sequence = Switch::off;
  EXPECT_NEAR(floors(2, plan_of(c)).at(family::kNormForward), whole.at(family::kNormForward), 1e-9);
  c.parallel.sequence = Switch::automatic;
  // Of adapters alone a rank has half, up to the whole of the other factor.
  c.lora = {.rank = 16, .alpha = 32, .dropout = 0, .targets = "q_proj,down_proj"};
  c.parallel.tensor = 1;
  const double adapters = floors(1, plan_of(c)).at(family::kWeightGradients);
  c.parallel.tensor = 2;
  EXPECT_GT(floors(2, plan_of(c)).at(family::kWeightGradients), 0.5 * adapters);
  EXPECT_LT(floors(2, plan_of(c)).at(family::kWeightGradients), adapters);
  c.lora = {};
  c.parallel.tensor = 1;
  c.parallel.pipeline = 2;
  const auto layers = static_cast<size_t>(c.model.layers);
  const StepWork first = step_work(c, 2, plan_of(c, 0, 1 + layers / 2)),
                 second = step_work(c, 2, plan_of(c, 1 + layers / 2, layers + 2));
  EXPECT_EQ(first.layers, c.model.layers / 2);
  EXPECT_EQ(second.layers, c.model.layers - c.model.layers / 2);
  EXPECT_TRUE(first.embedding && !first.head && !second.embedding && second.head);
  EXPECT_NEAR(family_floors(first).at(family::kProductsForward) + family_floors(second).at(family::kProductsForward),
              whole.at(family::kProductsForward), 1e-6 * whole.at(family::kProductsForward));
}

// Of two ranks: of replicated matrices a rank computes all rows, or its half where these are of the residual stream, as
// in the output of forward and the gradient of the input; gradients of weights are of half of the rows.
TEST(StepWork, CountsWhatATensorRankReplicates) {
  Config c;
  c.model = llama_1b().model;
  c.precision.compute = DType::bf16;
  c.train.sequence_length = 128, c.train.micro_batch = 2, c.train.global_batch = 2;
  c.parallel.tensor = 2;
  const auto floors = [&] { return family_floors(step_work(c, 2, plan_of(c))); };
  const auto divided = floors();
  const auto seconds = [](double elements) { return elements * 2 * 256 / 700e12; };
  constexpr double kQkv = 2048 * 2560, kOutput = 2048 * 2048, kUp = 2048 * 11264, kDown = 2048 * 5632,
                   kTable = 2048 * 32000;
  c.parallel.plan = {{"layers.*", "replicate"}, {"head", "replicate"}};
  for (const bool sequence : {true, false}) {
    c.parallel.sequence = sequence ? Switch::on : Switch::off;
    const double stream = sequence ? 0.5 : 1;
    const auto all = floors();
    EXPECT_NEAR(all.at(family::kProductsForward),
                seconds(22 * (kQkv + kUp + stream * (kOutput + kDown)) + stream * kTable), 1e-9);
    EXPECT_NEAR(all.at(family::kInputGradients),
                seconds(22 * (kOutput + kDown + stream * (kQkv + kUp)) + stream * kTable), 1e-9);
    EXPECT_NEAR(all.at(family::kWeightGradients), divided.at(family::kWeightGradients), 1e-9);
    EXPECT_NEAR(all.at(family::kCrossEntropy), 2 * stream * divided.at(family::kCrossEntropy), 1e-12);
    for (const auto name : {family::kAttentionForward, family::kAttentionBackward, family::kActivationForward,
                            family::kActivationBackward, family::kRope})
      EXPECT_NEAR(all.at(name), 2 * divided.at(name), 1e-9 * divided.at(name)) << name;
  }
  c.parallel.sequence = Switch::automatic;
  // Of one layer only its own MLP, on the stage that has it; below the first that is trained, in forward alone.
  c.parallel.plan = {{"layers.3.mlp", "replicate"}};
  const auto one = floors();
  EXPECT_NEAR(one.at(family::kProductsForward) - divided.at(family::kProductsForward), seconds(kUp / 2), 1e-12);
  EXPECT_NEAR(one.at(family::kInputGradients) - divided.at(family::kInputGradients), seconds(kDown / 2), 1e-12);
  EXPECT_EQ(one.at(family::kAttentionForward), divided.at(family::kAttentionForward));
  c.train.freeze = "embedding.*,layers.0.*,layers.1.*,layers.2.*,layers.3.*";
  const auto frozen = floors();
  c.parallel.plan = {};
  EXPECT_NEAR(frozen.at(family::kProductsForward), one.at(family::kProductsForward), 1e-12);
  for (const auto name : {family::kInputGradients, family::kWeightGradients, family::kActivationBackward})
    EXPECT_NEAR(frozen.at(name), floors().at(name), 1e-12) << name;
  c.train.freeze = "";
  c.parallel.plan = {{"layers.3.mlp", "replicate"}};
  c.parallel.pipeline = 2;
  const TensorDivision first = step_work(c, 4, plan_of(c, 0, 3)).division,
                       second = step_work(c, 4, plan_of(c, 3, 24)).division;
  EXPECT_EQ(first.layers, std::vector<LayerDivision>(2));
  ASSERT_EQ(second.layers.size(), 20U);
  EXPECT_TRUE(second.layer(0).mlp && second.layer(1).attention && !second.layer(1).mlp);
}

TEST(StepWork, KnowsWhatIsTrained) {
  Config c;
  c.model = llama_1b().model;
  c.train.global_batch = c.train.micro_batch;
  const auto work = [&] { return step_work(c, 1, plan_of(c)); };
  c.train.freeze = "embedding.*,layers.0.*,layers.1.*,layers.7.mlp.down.weight";
  EXPECT_EQ(work().first_trained, 3);
  EXPECT_EQ(work().frozen_weights, static_cast<int64_t>(2 * kLayer) + 2048 * 5632);
  EXPECT_FALSE(work().frozen_head);
  c.train.freeze = "head.weight";
  EXPECT_TRUE(work().frozen_head);
  EXPECT_EQ(work().updated, parameter_count(c.model) - 2048 * 32000);
  c.train.freeze = "";
  c.lora = {.rank = 16, .targets = "q_proj,v_proj"};
  EXPECT_EQ(work().adapter_weights, 22 * 16 * (2048 + 2048 + 2048 + 256));
  EXPECT_EQ(work().updated, work().adapter_weights);
  EXPECT_EQ(work().first_trained, 1);
  EXPECT_EQ(work().frozen_weights, static_cast<int64_t>(22 * kLayer));
  EXPECT_TRUE(work().frozen_head);

  c.lora = {};
  c.model = {.layers = 3, .hidden_size = 20, .heads = 2, .vocab_size = 61, .max_length = 13};
  c.train.freeze = "embedding.*,layers.1.*.bias";  // the table is the head's matrix
  EXPECT_TRUE(work().frozen_head);
  EXPECT_EQ(work().first_trained, 1);
  EXPECT_EQ(work().frozen_biases, 3 * 20 + 4 * 20);
  EXPECT_EQ(work().frozen_weights, 0);
}

TEST_F(Floors, OfFrozenBiases) {
  StepWork work{.model = {.layers = 3, .hidden_size = 20, .heads = 2, .vocab_size = 61, .max_length = 13},
                .length = 13,
                .tokens = 26};
  const auto all = family_floors(work);
  work.frozen_biases = 7 * 20;
  EXPECT_NEAR(family_floors(work).at(family::kBiasGradients), all.at(family::kBiasGradients) * 2 / 3, 1e-15);
  work.frozen_biases = 3 * 7 * 20;
  EXPECT_FALSE(family_floors(work).contains(family::kBiasGradients));
}

}  // namespace
}  // namespace partita::internal
