#include "partita/models/tensor_division.h"

#include <gmock/gmock.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using enum TensorRole;
using ::testing::HasSubstr;

ModelConfig model(ModelKind kind, TiedHead tied = TiedHead::automatic) {
  return {
      .kind = kind, .layers = 3, .hidden_size = 24, .heads = 3, .vocab_size = 61, .max_length = 8, .tied_head = tied};
}

TensorDivision divide(ModelKind kind, const DivisionPlan& plan, TiedHead tied = TiedHead::automatic) {
  return divide_model(model(kind, tied), plan);
}

std::string message(ModelKind kind, const DivisionPlan& plan, TiedHead tied = TiedHead::automatic) {
  return error_message([&] { (void)divide(kind, plan, tied); });
}

TEST(TensorDivision, DividesAllByDefault) {
  const TensorDivision d = divide(ModelKind::gpt2, {});
  EXPECT_TRUE(d.embedding && d.head && d.layer(2).attention && d.layer(2).mlp);
  EXPECT_EQ(replicated_text(d), "");
  // What the default is may be said.
  for (const DivisionPlan& plan : {DivisionPlan{{"embedding", vocabulary}},
                                   {{"layers.*.attention.qkv", column}, {"layers.*.attention.output", row}},
                                   {{"layers.*.mlp.up", column}, {"layers.*.mlp.down", row}},
                                   {{"final_norm", replicate}, {"**.norm.*", replicate}}})
    EXPECT_EQ(replicated_text(divide(ModelKind::gpt2, plan)), "") << plan.front().pattern;
  EXPECT_EQ(replicated_text(divide(ModelKind::llama, {{"head", vocabulary}, {"**.gate_up", column}})), "");
}

TEST(TensorDivision, ReplicatesWhatPatternsName) {
  EXPECT_EQ(replicated_text(divide(ModelKind::gpt2, {{"embedding", replicate}})), "embedding, head");  // tied
  EXPECT_EQ(replicated_text(divide(ModelKind::llama, {{"embedding", replicate}})), "embedding");
  EXPECT_EQ(replicated_text(divide(ModelKind::llama, {{"head.weight", replicate}})), "head");
  EXPECT_EQ(replicated_text(divide(ModelKind::llama, {{"layers.*.attention.*", replicate}})),
            "attention of layers 0-2");
  EXPECT_EQ(replicated_text(divide(ModelKind::gpt2, {{"layers.0", replicate}, {"layers.2.mlp", replicate}})),
            "attention of layer 0, mlp of layers 0, 2");
  EXPECT_EQ(replicated_text(divide(ModelKind::gpt2, {{"**", replicate}})),
            "embedding, head, attention of layers 0-2, mlp of layers 0-2");
}

TEST(TensorDivision, TakesTheFirstPatternThatMatches) {
  const DivisionPlan plan = {{"layers.1.mlp.up", column}, {"layers.1.mlp.down", row}, {"layers.*.mlp", replicate}};
  EXPECT_EQ(replicated_text(divide(ModelKind::gpt2, plan)), "mlp of layers 0, 2");
  EXPECT_EQ(
      message(ModelKind::gpt2, {{"layers.*.mlp", replicate}, {"layers.1.mlp.up", column}}),
      "tensor plan: earlier patterns match all that \"layers.1.mlp.up\" matches: put it before them, or leave it out");
}

TEST(TensorDivision, NamesAPatternThatMatchesNothing) {
  EXPECT_EQ(message(ModelKind::gpt2, {{"layers.*.atention", replicate}}),
            "tensor plan: \"layers.*.atention\" matches no parameter of the model: the nearest names are "
            "layers.*.attention, layers.*.attention.qkv, layers.*.attention.norm");
  EXPECT_THAT(message(ModelKind::gpt2, {{"layers.3.mlp", replicate}}), HasSubstr("\"layers.3.mlp\" matches no"));
  EXPECT_EQ(message(ModelKind::gpt2, {{"head", replicate}}),
            "tensor plan: \"head\" matches nothing: the head is tied to the embedding: use \"embedding\"");
  EXPECT_THAT(message(ModelKind::llama, {{"layers.*.mlp.down.bias", replicate}}), HasSubstr("matches no parameter"));
}

TEST(TensorDivision, RefusesWhatCannotBe) {
  EXPECT_EQ(
      message(ModelKind::gpt2, {{"layers.*.attention.qkv", row}}),
      "tensor plan, \"layers.*.attention.qkv\" = \"row\": layers.0.attention.qkv.weight is divided by column, not by "
      "row: expected \"column\" or \"replicate\"");
  EXPECT_THAT(
      message(ModelKind::llama, {{"layers.*.mlp.down", vocabulary}}),
      HasSubstr("layers.0.mlp.down.weight is divided by row, not by vocabulary: expected \"row\" or \"replicate\""));
  EXPECT_THAT(message(ModelKind::llama, {{"head", column}}), HasSubstr("expected \"vocabulary\" or \"replicate\""));
  EXPECT_EQ(message(ModelKind::llama, {{"layers.1.mlp.gate_up", replicate}}),
            "tensor plan: layers.1.mlp.gate_up.weight is \"replicate\" and layers.1.mlp.down.weight \"row\", which are "
            "computed together: expected \"column\" and \"row\", or \"replicate\" for both");
  EXPECT_THAT(message(ModelKind::gpt2, {{"embedding.token", replicate}}),
              HasSubstr("embedding.token.weight is \"replicate\" and embedding.position.weight \"vocabulary\""));
  EXPECT_EQ(
      message(ModelKind::gpt2, {{"layers.0.mlp.norm.weight", column}}),
      "tensor plan, \"layers.0.mlp.norm.weight\" = \"column\": layers.0.mlp.norm.weight is a vector that every rank "
      "has: expected \"replicate\"");
  EXPECT_THAT(
      message(ModelKind::gpt2, {{"layers.0.attention.qkv.bias", replicate}}),
      HasSubstr("layers.0.attention.qkv.bias is the bias of layers.0.attention.qkv.weight, which is \"column\": "
                "expected \"column\", or no pattern for the bias"));
  EXPECT_THAT(message(ModelKind::gpt2, {{"embedding", replicate_sum}}), HasSubstr("use \"replicate\""));
}

}  // namespace
}  // namespace partita::internal
