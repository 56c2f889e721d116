#include "partita/models/tensor_division.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using enum TensorRole;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
            "attention of layer 0, MLP of layers 0, 2");
  EXPECT_EQ(replicated_text(divide(ModelKind::gpt2, {{"**", replicate}})),
            "embedding, head, attention of layers 0-2, MLP of layers 0-2");
}

TEST(TensorDivision, TakesTheFirstPatternThatMatches) {
  const DivisionPlan plan = {{"layers.1.mlp.up", column}, {"layers.1.mlp.down", row}, {"layers.*.mlp", replicate}};
  EXPECT_EQ(replicated_text(divide(ModelKind::gpt2, plan)), "MLP of layers 0, 2");
  EXPECT_EQ(
      message(ModelKind::gpt2, {{"layers.*.mlp", replicate}, {"layers.1.mlp.up", column}}),
      "\"layers.*.mlp\" comes before \"layers.1.mlp.up\" and matches all of it: put \"layers.1.mlp.up\" first, or "
      "leave it out");
  EXPECT_EQ(message(ModelKind::gpt2, {{"layers.0.mlp", replicate},
                                      {"layers.1", replicate},
                                      {"**.mlp", replicate},
                                      {"*.2", replicate},
                                      {"layers.*.mlp", replicate}}),
            "\"layers.0.mlp\", \"layers.1\", \"**.mlp\" come before \"layers.*.mlp\" and match all of it: put "
            "\"layers.*.mlp\" first, or leave it out");
}

TEST(TensorDivision, NamesDependOnNoLength) {
  ModelConfig m = model(ModelKind::llama);
  m.max_length = int64_t{1} << 40;  // a table of positions of this length cannot be made
  m.vocab_size = 0;                 // not yet known
  EXPECT_EQ(replicated_text(divide_model(m, {{"layers.1.mlp", replicate}})), "MLP of layer 1");
}

TEST(TensorDivision, NamesAPatternThatMatchesNothing) {
  const auto nearest = [](ModelKind kind, std::string pattern) {
    const std::string text = message(kind, {{pattern, replicate}}),
                      start = "\"" + pattern + "\" matches no parameter of the model: the nearest names are ";
    return text.starts_with(start) ? text.substr(start.size()) : "not: " + text;
  };
  using enum ModelKind;
  EXPECT_EQ(nearest(gpt2, "layers.*.atention"),
            "layers.*.attention, layers.*.attention.qkv, layers.*.attention.output");
  EXPECT_THAT(nearest(gpt2, "layers.*.attn"), StartsWith("layers.*.attention, layers.*.attention.qkv, "));
  EXPECT_THAT(nearest(gpt2, "layers.1.attn"), StartsWith("layers.*.attention, "));
  EXPECT_THAT(nearest(gpt2, "layers.*.attn.qkv"), StartsWith("layers.*.attention.qkv, "));
  EXPECT_THAT(nearest(gpt2, "layer.*.mlp.down"), StartsWith("layers.*.mlp.down, "));
  EXPECT_THAT(nearest(llama, "layers.*.mlp.gate"), StartsWith("layers.*.mlp.gate_up, "));
  EXPECT_THAT(nearest(gpt2, "mlp"), StartsWith("layers.*.mlp, "));
  EXPECT_THAT(nearest(gpt2, "attention"), StartsWith("layers.*.attention, "));
  EXPECT_THAT(nearest(gpt2, "embed"), StartsWith("embedding, "));
  EXPECT_THAT(nearest(gpt2, "embeding.token"), StartsWith("embedding.token, "));
  EXPECT_THAT(nearest(llama, "lm_head"), StartsWith("head, head.weight, "));
  EXPECT_THAT(nearest(llama, "layers.*.mlp.down.bias"), StartsWith("layers.*.mlp.down, "));
  for (const char* pattern : {"layer", "layrs.*", "layers.*.x", ""})  // never all of a layer
    EXPECT_THAT(nearest(gpt2, pattern) + ",", Not(HasSubstr("layers.*,"))) << pattern;
}

TEST(TensorDivision, KnowsWhyAPatternMatchesNothing) {
  for (const char* name : {"head", "lm_head", "head.weight", "lm_head.weight"})
    EXPECT_EQ(message(ModelKind::gpt2, {{name, replicate}}),
              fmt::format("\"{}\" matches nothing: the head is tied to the embedding: use \"embedding\"", name));
  EXPECT_EQ(message(ModelKind::gpt2, {{"layers.3.mlp", replicate}}),
            "\"layers.3.mlp\" matches nothing: the model has layers 0 to 2");
  EXPECT_EQ(message(ModelKind::gpt2, {{"layers.17", replicate}}),
            "\"layers.17\" matches nothing: the model has layers 0 to 2");
  ModelConfig one = model(ModelKind::gpt2);
  one.layers = 1;
  EXPECT_EQ(error_message([&] {
              (void)divide_model(one, {{"layers.1", replicate}});
            }),
            "\"layers.1\" matches nothing: the model has only layer 0");
  for (const auto& [pattern, found] : {std::pair("layers.[01].mlp", '['), {"layers.?.mlp", '?'}, {"layers.0-2", '-'}})
    EXPECT_EQ(message(ModelKind::gpt2, {{pattern, replicate}}),
              fmt::format("\"{}\" matches nothing: only * (anything but a point) and ** (anything) are patterns, '{}' "
                          "is not: give each layer a pattern of its own",
                          pattern, found));
}

TEST(TensorDivision, RefusesWhatCannotBe) {
  EXPECT_EQ(message(ModelKind::gpt2, {{"layers.*.mlp", column}}),
            "\"layers.*.mlp\" = \"column\": layers.0.mlp.down.weight is divided by row: expected \"replicate\", or a "
            "pattern each for \".up\" (\"column\") and \".down\" (\"row\")");
  EXPECT_EQ(message(ModelKind::llama, {{"layers.1", row}}),
            "\"layers.1\" = \"row\": layers.1.attention.qkv.weight is divided by column: expected \"replicate\", or a "
            "pattern each for \".qkv\" (\"column\") and \".output\" (\"row\")");
  EXPECT_EQ(message(ModelKind::gpt2, {{"layers.*.attention.qkv", row}}),
            "\"layers.*.attention.qkv\" = \"row\": layers.0.attention.qkv.weight is divided by column, not by "
            "row: expected \"column\" or \"replicate\"");
  EXPECT_THAT(
      message(ModelKind::llama, {{"layers.*.mlp.down", vocabulary}}),
      HasSubstr("layers.0.mlp.down.weight is divided by row, not by vocabulary: expected \"row\" or \"replicate\""));
  EXPECT_THAT(message(ModelKind::llama, {{"head", column}}), HasSubstr("expected \"vocabulary\" or \"replicate\""));
  EXPECT_EQ(message(ModelKind::llama, {{"layers.1.mlp.gate_up", replicate}}),
            "layers.1.mlp.gate_up.weight is \"replicate\" and layers.1.mlp.down.weight \"row\", which are "
            "computed together: expected \"column\" and \"row\", or \"replicate\" for both");
  EXPECT_THAT(message(ModelKind::gpt2, {{"embedding.token", replicate}}),
              HasSubstr("embedding.token.weight is \"replicate\" and embedding.position.weight \"vocabulary\""));
  EXPECT_EQ(message(ModelKind::gpt2, {{"layers.0.mlp.norm.weight", column}}),
            "\"layers.0.mlp.norm.weight\" = \"column\": layers.0.mlp.norm.weight is a vector that every rank "
            "has: expected \"replicate\"");
  EXPECT_THAT(
      message(ModelKind::gpt2, {{"layers.0.attention.qkv.bias", replicate}}),
      HasSubstr("layers.0.attention.qkv.bias is the bias of layers.0.attention.qkv.weight, which is \"column\": "
                "expected \"column\", or no pattern for the bias"));
  EXPECT_THAT(message(ModelKind::gpt2, {{"embedding", replicate_sum}}), HasSubstr("use \"replicate\""));
}

}  // namespace
}  // namespace partita::internal
