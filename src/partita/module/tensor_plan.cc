#include "partita/module/tensor_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/name_pattern.h"
#include "partita/nn/split.h"

namespace partita {
namespace internal {
namespace {

struct Name {
  std::string_view module, parameter;
};

Name split_name(std::string_view name) {
  const size_t point = name.rfind('.');
  if (point == std::string_view::npos) return {"", name};
  return {name.substr(0, point), name.substr(point + 1)};
}

const TensorRule* first_match(const TensorPlan& plan, std::string_view module) {
  const auto found =
      std::ranges::find_if(plan, [&](const TensorRule& rule) { return matches_name(rule.module, module); });
  return found == plan.end() ? nullptr : &*found;
}

void require_valid(const TensorRule& rule) {
  if (rule.parts < 1 || rule.quantum < 1)
    fail("tensor plan, rule \"{}\": parts {} and quantum {}, expected at least 1", rule.module, rule.parts,
         rule.quantum);
  if (rule.parts > 1 && rule.role != TensorRole::column)
    fail("tensor plan, rule \"{}\": parts {}, which only rules of role column may have", rule.module, rule.parts);
  if (rule.gather && rule.role != TensorRole::column && rule.role != TensorRole::vocabulary)
    fail("tensor plan, rule \"{}\": gather is for outputs that are divided: of role column or vocabulary", rule.module);
}

// Nothing is divided of the bias of a row-parallel linear.
Split split_of(TensorRole role, bool vector) {
  switch (role) {
    case TensorRole::column:
    case TensorRole::vocabulary:
      return Split::rows;
    case TensorRole::row:
      return vector ? Split::none : Split::columns;
    case TensorRole::replicate:
    case TensorRole::replicate_sum:
      break;
  }
  return Split::none;
}

void divide_by_rule(ParameterSpec& spec, const TensorRule& rule) {
  const Name name = split_name(spec.name);
  const bool vector = spec.shape.size() == 1;
  spec.split = split_of(rule.role, vector);
  if (rule.role == TensorRole::replicate || rule.role == TensorRole::replicate_sum) return;
  if (spec.shape.size() != (name.parameter == "bias" ? 1U : 2U) || (vector && name.parameter != "bias"))
    fail(
        "tensor plan, rule \"{}\": {} has shape [{}], expected the weight of a linear or an embedding, [rows, "
        "columns], "
        "or a bias",
        rule.module, spec.name, fmt::join(spec.shape, ", "));
  if (spec.split == Split::none) return;
  const int64_t divided = spec.split == Split::rows ? spec.shape[0] : spec.shape[1];
  if (divided % (rule.parts * rule.quantum) != 0)
    fail("tensor plan, rule \"{}\": {} {} of {} cannot be divided into {} whose size is a multiple of {}", rule.module,
         divided, spec.split == Split::rows ? "rows" : "columns", spec.name,
         rule.parts == 1 ? "one part" : fmt::format("{} parts", rule.parts), rule.quantum);
  if (spec.split == Split::rows)
    spec.parts.assign(static_cast<size_t>(rule.parts),
                      {.name = nullptr, .rows = divided / rule.parts, .quantum = rule.quantum});
  else
    spec.parts = {{.name = nullptr, .rows = spec.shape[0], .quantum = rule.quantum}};
}

}  // namespace

std::vector<TensorPart> divide(const TensorPlan& plan, const std::vector<WholeParameter>& parameters, int rank,
                               int ranks) {
  for (const TensorRule& rule : plan) require_valid(rule);
  std::vector<TensorPart> result;
  std::vector<const TensorRule*> used;
  for (const WholeParameter& parameter : parameters) {
    TensorPart part{.spec = {.name = parameter.name, .shape = parameter.shape, .decay = true},
                    .rule = first_match(plan, split_name(parameter.name).module)};
    if (part.rule != nullptr) {
      used.push_back(part.rule);
      divide_by_rule(part.spec, *part.rule);
    }
    part.spec.local = local_boxes(part.spec, rank, ranks);
    result.push_back(std::move(part));
  }
  for (const TensorRule& rule : plan)
    if (!rule.optional && std::ranges::find(used, &rule) == used.end())
      fail(
          "tensor plan, rule \"{}\": no parameter is of a module of this name that an earlier rule does not match; "
          "the modules are {}",
          rule.module, [&] {
            std::vector<std::string_view> modules;
            for (const WholeParameter& p : parameters)
              if (const std::string_view m = split_name(p.name).module; modules.empty() || modules.back() != m)
                modules.push_back(m);
            if (modules.size() > 12) modules.resize(12), modules.emplace_back("...");
            return fmt::format("{}", fmt::join(modules, ", "));
          }());
  return result;
}

}  // namespace internal

TensorPlan gpt2_plan(int64_t head_size) {
  return {{.module = "**wte", .role = TensorRole::vocabulary},
          {.module = "**attn.c_attn", .role = TensorRole::column, .parts = 3, .quantum = head_size},
          {.module = "**attn.c_proj", .role = TensorRole::row, .quantum = head_size},
          {.module = "**mlp.c_fc", .role = TensorRole::column},
          {.module = "**mlp.c_proj", .role = TensorRole::row},
          {.module = "**lm_head", .role = TensorRole::vocabulary, .optional = true}};
}

TensorPlan llama_plan(int64_t head_size, int64_t heads, int64_t kv_heads) {
  if (kv_heads < 1 || heads % kv_heads != 0)
    fail("llama_plan: {} heads and {} key/value heads, expected a multiple", heads, kv_heads);
  const int64_t group = heads / kv_heads * head_size;
  return {{.module = "**embed_tokens", .role = TensorRole::vocabulary},
          {.module = "**q_proj", .role = TensorRole::column, .quantum = group},
          {.module = "**k_proj", .role = TensorRole::column, .quantum = head_size},
          {.module = "**v_proj", .role = TensorRole::column, .quantum = head_size},
          {.module = "**o_proj", .role = TensorRole::row, .quantum = group},
          {.module = "**gate_proj", .role = TensorRole::column},
          {.module = "**up_proj", .role = TensorRole::column},
          {.module = "**down_proj", .role = TensorRole::row},
          {.module = "**lm_head", .role = TensorRole::vocabulary, .optional = true}};
}

}  // namespace partita
