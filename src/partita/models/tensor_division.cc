#include "partita/models/tensor_division.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "partita/base/error.h"
#include "partita/models/model.h"
#include "partita/models/unmatched_pattern.h"

namespace partita {
namespace internal {
namespace {

// A parameter, and what a plan says about it.
struct Planned {
  std::string name, module;  // "layers.3.mlp.up.weight", "layers.3.mlp.up"
  bool vector = false;
  TensorRole usual = TensorRole::replicate;
  const NamedRole* given = nullptr;

  [[nodiscard]] TensorRole role() const { return given == nullptr ? usual : given->role; }
  [[nodiscard]] bool divided() const { return role() != TensorRole::replicate; }
};

TensorRole usual_role(const ParameterSpec& p) {
  if (p.split == Split::none) return TensorRole::replicate;
  if (!p.name.starts_with("layers.")) return TensorRole::vocabulary;
  return p.split == Split::rows ? TensorRole::column : TensorRole::row;
}

std::vector<Planned> planned_parameters(const ModelConfig& config, const DivisionPlan& plan) {
  ModelConfig model = config;
  // Names depend on neither, but the time to make tables of positions does.
  model.vocab_size = model.max_length = 1;
  std::vector<Planned> all;
  for (const auto& block : make_blocks(model, DType::fp32))
    for (const ParameterSpec& p : block->parameters()) {
      if (std::ranges::find(all, p.name, &Planned::name) != all.end()) continue;
      const auto rule =
          std::ranges::find_if(plan, [&](const NamedRole& r) { return matches_name_or_above(r.pattern, p.name); });
      all.push_back({.name = p.name,
                     .module = std::string(name_above(p.name)),
                     .vector = p.shape.size() == 1,
                     .usual = usual_role(p),
                     .given = rule == plan.end() ? nullptr : &*rule});
    }
  return all;
}

void require_matches(const DivisionPlan& plan, const std::vector<Planned>& parameters, const ModelConfig& model) {
  for (const NamedRole& rule : plan) {
    if (std::ranges::any_of(parameters, [&](const Planned& p) { return p.given == &rule; })) continue;
    std::vector<std::string> earlier;  // patterns that come first for all that this one matches
    for (const Planned& p : parameters)
      if (matches_name_or_above(rule.pattern, p.name))
        if (std::string text = fmt::format("\"{}\"", p.given->pattern);
            std::ranges::find(earlier, text) == earlier.end())
          earlier.push_back(std::move(text));
    if (!earlier.empty())
      fail("{0} come{1} before \"{2}\" and match{3} all of it: put \"{2}\" first, or leave it out",
           fmt::join(earlier, ", "), earlier.size() == 1 ? "s" : "", rule.pattern, earlier.size() == 1 ? "es" : "");
    PatternNames names{.matrices = {}, .layers = model.layers, .tied_head = model.has_tied_head()};
    for (const Planned& p : parameters)
      if (!p.vector) names.matrices.push_back(p.name);
    fail("{}", unmatched_pattern(rule.pattern, names));
  }
}

// What is divided or replicated as a whole: "layers.3.mlp", "embedding", "head".
std::string group_of(const Planned& p) {
  return std::string(p.name.starts_with("layers.") ? name_above(p.module) : p.module.substr(0, p.module.find('.')));
}

[[noreturn]] void refuse(const Planned& p, std::string_view why, std::string_view expected) {
  fail("\"{}\" = \"{}\": {} {}: expected {}", p.given->pattern, name_of(p.given->role), p.name, why, expected);
}

void require_possible_matrix(const Planned& p, const std::vector<Planned>& parameters) {
  if (p.given == nullptr || p.given->role == TensorRole::replicate || p.given->role == p.usual) return;
  // The pattern may be of a column and its row.
  const std::string group = group_of(p);
  std::vector<std::string> each;
  bool mixed = false;
  for (const Planned& other : parameters) {
    if (other.vector || other.given != p.given || group_of(other) != group) continue;
    mixed = mixed || other.usual != p.usual;
    each.push_back(fmt::format("\"{}\" (\"{}\")", other.module.substr(group.size()), name_of(other.usual)));
  }
  if (mixed)
    refuse(p, fmt::format("is divided by {}", name_of(p.usual)),
           fmt::format("\"replicate\", or a pattern each for {}", fmt::join(each, " and ")));
  refuse(p, fmt::format("is divided by {}, not by {}", name_of(p.usual), name_of(p.given->role)),
         fmt::format("\"{}\" or \"replicate\"", name_of(p.usual)));
}

// `matrix`: of the same module; null: none, as for a norm.
void require_possible_vector(const Planned& p, const Planned* matrix) {
  if (p.given == nullptr) return;
  const TensorRole role = p.given->role;
  if (matrix == nullptr || matrix->vector) {
    if (role != TensorRole::replicate) refuse(p, "is a vector that every rank has", "\"replicate\"");
    return;
  }
  const bool whole = p.usual == TensorRole::replicate;  // a bias that is added to the sum over ranks
  if (role == matrix->role() || (whole && role == TensorRole::replicate)) return;
  refuse(p, fmt::format("is the bias of {}, which is \"{}\"", matrix->name, name_of(matrix->role())),
         fmt::format("\"{}\", or no pattern for the bias", name_of(matrix->role())));
}

void require_same(const Planned& a, const Planned& b) {
  if (a.divided() == b.divided()) return;
  fail(
      "{} is \"{}\" and {} \"{}\", which are computed together: expected \"{}\" and \"{}\", or "
      "\"replicate\" for both",
      a.name, name_of(a.role()), b.name, name_of(b.role()), name_of(a.usual), name_of(b.usual));
}

// "0-2, 5"
std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

std::string replicated_text(const TensorDivision& division) {
  std::vector<std::string> parts;
  if (!division.embedding) parts.emplace_back("embedding");
  if (!division.head) parts.emplace_back("head");
  for (const auto& [name, divided] :
       {std::pair("attention", &LayerDivision::attention), std::pair("MLP", &LayerDivision::mlp)}) {
    std::vector<int64_t> replicated;
    for (size_t l = 0; l < division.layers.size(); ++l)
      if (!(division.layers[l].*divided)) replicated.push_back(static_cast<int64_t>(l));
    if (!replicated.empty())
      parts.push_back(
          fmt::format("{} of layer{} {}", name, replicated.size() == 1 ? "" : "s", ranges_text(replicated)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace internal

using namespace internal;

TensorDivision divide_model(const ModelConfig& model, const DivisionPlan& plan) {
  if (plan.empty()) return {};
  for (const NamedRole& rule : plan)
    if (rule.role == TensorRole::replicate_sum)
      fail("\"{}\" = \"replicate_sum\": it is for modules of your own: use \"replicate\"", rule.pattern);
  const std::vector<Planned> parameters = planned_parameters(model, plan);
  require_matches(plan, parameters, model);
  std::map<std::string, const Planned*> groups;  // the first matrix of each
  for (const Planned& p : parameters) {
    if (p.vector) continue;
    require_possible_matrix(p, parameters);
    const auto [first, added] = groups.try_emplace(group_of(p), &p);
    if (!added) require_same(*first->second, p);
  }
  // Last: what a role says of vectors follows from what it says of matrices.
  for (const Planned& p : parameters) {
    if (!p.vector) continue;
    const auto matrix = std::ranges::find(parameters, p.module + ".weight", &Planned::name);
    require_possible_vector(p, matrix == parameters.end() ? nullptr : &*matrix);
  }
  const auto divided = [&](const std::string& group) { return groups.at(group)->divided(); };
  TensorDivision division{
      .embedding = divided("embedding"), .head = divided(model.has_tied_head() ? "embedding" : "head"), .layers = {}};
  for (int64_t l = 0; l < model.layers; ++l)
    division.layers.push_back(
        {.attention = divided(fmt::format("layers.{}.attention", l)), .mlp = divided(fmt::format("layers.{}.mlp", l))});
  return division;
}

}  // namespace partita
