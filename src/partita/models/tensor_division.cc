#include "partita/models/tensor_division.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/name_pattern.h"
#include "partita/base/nearest.h"
#include "partita/models/model.h"

namespace partita {
namespace internal {
namespace {

constexpr size_t kShownNames = 3;

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

std::string_view above(std::string_view name) {
  const size_t point = name.rfind('.');
  return point == std::string_view::npos ? std::string_view() : name.substr(0, point);
}

bool matches_name_or_above(std::string_view pattern, std::string_view name) {
  for (; !name.empty(); name = above(name))
    if (matches_name(pattern, name)) return true;
  return false;
}

std::vector<Planned> planned_parameters(const ModelConfig& config, const DivisionPlan& plan) {
  ModelConfig model = config;
  model.vocab_size = std::max<int64_t>(model.vocab_size, 1);  // names do not depend on it
  std::vector<Planned> all;
  for (const auto& block : make_blocks(model, DType::fp32))
    for (const ParameterSpec& p : block->parameters()) {
      if (std::ranges::find(all, p.name, &Planned::name) != all.end()) continue;
      const auto rule =
          std::ranges::find_if(plan, [&](const NamedRole& r) { return matches_name_or_above(r.pattern, p.name); });
      all.push_back({.name = p.name,
                     .module = std::string(above(p.name)),
                     .vector = p.shape.size() == 1,
                     .usual = usual_role(p),
                     .given = rule == plan.end() ? nullptr : &*rule});
    }
  return all;
}

// "layers.3.mlp.up" -> "layers.*.mlp.up"
std::string as_pattern(std::string_view name) {
  std::string text;
  for (; !name.empty(); name.remove_prefix(std::min(name.find('.'), name.size() - 1) + 1)) {
    const std::string_view part = name.substr(0, name.find('.'));
    const bool number = std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
    text += fmt::format("{}{}", text.empty() ? "" : ".", number ? "*" : part);
  }
  return text;
}

std::vector<std::string> nearest_names(std::string_view pattern, const std::vector<Planned>& parameters) {
  std::vector<std::string> names;
  for (const Planned& p : parameters)
    for (std::string_view name = p.name; !name.empty(); name = above(name))
      if (std::string text = as_pattern(name); text != "layers" && std::ranges::find(names, text) == names.end())
        names.push_back(std::move(text));
  const std::string like = as_pattern(pattern);
  std::ranges::stable_sort(names, {}, [&](const std::string& name) { return edit_distance(like, name); });
  names.resize(std::min(names.size(), kShownNames));
  return names;
}

void require_matches(const DivisionPlan& plan, const std::vector<Planned>& parameters, bool tied) {
  for (const NamedRole& rule : plan) {
    if (std::ranges::any_of(parameters, [&](const Planned& p) { return p.given == &rule; })) continue;
    if (std::ranges::any_of(parameters, [&](const Planned& p) { return matches_name_or_above(rule.pattern, p.name); }))
      fail("tensor plan: earlier patterns match all that \"{}\" matches: put it before them, or leave it out",
           rule.pattern);
    if (tied && matches_name_or_above(rule.pattern, "head.weight"))
      fail("tensor plan: \"{}\" matches nothing: the head is tied to the embedding: use \"embedding\"", rule.pattern);
    fail("tensor plan: \"{}\" matches no parameter of the model: the nearest names are {}", rule.pattern,
         fmt::join(nearest_names(rule.pattern, parameters), ", "));
  }
}

[[noreturn]] void refuse(const Planned& p, std::string_view why, std::string_view expected) {
  fail("tensor plan, \"{}\" = \"{}\": {} {}: expected {}", p.given->pattern, name_of(p.given->role), p.name, why,
       expected);
}

// `matrix`: of the same module; null: none, as for a norm.
void require_possible(const Planned& p, const Planned* matrix) {
  if (p.given == nullptr) return;
  const TensorRole role = p.given->role;
  if (!p.vector) {
    if (role == TensorRole::replicate || role == p.usual) return;
    refuse(p, fmt::format("is divided by {}, not by {}", name_of(p.usual), name_of(role)),
           fmt::format("\"{}\" or \"replicate\"", name_of(p.usual)));
  }
  if (matrix == nullptr || matrix->vector) {
    if (role != TensorRole::replicate) refuse(p, "is a vector that every rank has", "\"replicate\"");
    return;
  }
  const bool whole = p.usual == TensorRole::replicate;  // a bias that is added to the sum over ranks
  if (role == matrix->role() || (whole && role == TensorRole::replicate)) return;
  refuse(p, fmt::format("is the bias of {}, which is \"{}\"", matrix->name, name_of(matrix->role())),
         fmt::format("\"{}\", or no pattern for the bias", name_of(matrix->role())));
}

// What is divided or replicated as a whole: "layers.3.mlp", "embedding", "head".
std::string group_of(const Planned& p) {
  return std::string(p.name.starts_with("layers.") ? above(p.module) : p.module.substr(0, p.module.find('.')));
}

void require_same(const Planned& a, const Planned& b) {
  if (a.divided() == b.divided()) return;
  fail(
      "tensor plan: {} is \"{}\" and {} \"{}\", which are computed together: expected \"{}\" and \"{}\", or "
      "\"replicate\" "
      "for both",
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
       {std::pair("attention", &LayerDivision::attention), std::pair("mlp", &LayerDivision::mlp)}) {
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
      fail("tensor plan, \"{}\" = \"replicate_sum\": it is for modules of your own: use \"replicate\"", rule.pattern);
  const std::vector<Planned> parameters = planned_parameters(model, plan);
  require_matches(plan, parameters, model.has_tied_head());
  std::map<std::string, const Planned*> groups;  // the first matrix of each
  for (const Planned& p : parameters) {
    const auto matrix = std::ranges::find(parameters, p.module + ".weight", &Planned::name);
    require_possible(p, matrix == parameters.end() ? nullptr : &*matrix);
    if (p.vector) continue;
    const auto [first, added] = groups.try_emplace(group_of(p), &p);
    if (!added) require_same(*first->second, p);
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
