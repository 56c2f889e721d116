#include "partita/models/lora.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "partita/base/comma_list.h"
#include "partita/base/error.h"
#include "partita/base/random.h"

namespace partita {
using namespace internal;
namespace {

constexpr std::array<LoraTarget, 4> kGpt2 = {{{"attention.qkv", "attn.c_attn"},
                                              {"attention.output", "attn.c_proj"},
                                              {"mlp.up", "mlp.c_fc"},
                                              {"mlp.down", "mlp.c_proj"}}};
constexpr std::array<LoraTarget, 7> kLlama = {{{"attention.q", "self_attn.q_proj"},
                                               {"attention.k", "self_attn.k_proj"},
                                               {"attention.v", "self_attn.v_proj"},
                                               {"attention.output", "self_attn.o_proj"},
                                               {"mlp.gate", "mlp.gate_proj"},
                                               {"mlp.up", "mlp.up_proj"},
                                               {"mlp.down", "mlp.down_proj"}}};

std::string_view default_targets(ModelKind kind) {
  return kind == ModelKind::gpt2 ? "c_attn" : "q_proj,k_proj,v_proj,o_proj";
}

std::vector<std::string_view> wanted_names(const LoraConfig& lora, ModelKind kind) {
  std::vector<std::string_view> names =
      comma_list(lora.targets.empty() ? default_targets(kind) : std::string_view(lora.targets));
  std::erase_if(names, [](std::string_view name) { return name.empty(); });
  return names;
}

std::string_view last_word(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Matches like PEFT: the full name within the layer, or its last component.
bool matches(std::string_view wanted, const LoraTarget& target) {
  return wanted == target.hugging_face || wanted == last_word(target.hugging_face);
}

}  // namespace

std::vector<LoraTarget> lora_targets(ModelKind kind) {
  if (kind == ModelKind::gpt2) return {kGpt2.begin(), kGpt2.end()};
  return {kLlama.begin(), kLlama.end()};
}

std::string_view hugging_face_linear(ModelKind kind, std::string_view part) {
  const std::vector<LoraTarget> targets = lora_targets(kind);
  const auto found = std::ranges::find(targets, part, &LoraTarget::part);
  PARTITA_CHECK(found != targets.end(), "no linear {}", part);
  return found->hugging_face;
}

std::vector<LoraTarget> adapted_targets(const LoraConfig& lora, ModelKind kind) {
  if (lora.rank == 0) return {};
  const std::vector<std::string_view> wanted = wanted_names(lora, kind);
  std::vector<LoraTarget> targets = lora_targets(kind);
  std::erase_if(targets, [&](const LoraTarget& target) {
    return std::ranges::none_of(wanted, [&](std::string_view name) { return matches(name, target); });
  });
  return targets;
}

void validate(const LoraConfig& lora, ModelKind kind) {
  if (lora.rank < 0) fail("lora.rank is {}: expected a rank, or 0 for no adapters", lora.rank);
  if (lora.rank == 0) return;
  if (!(lora.alpha > 0)) fail("lora.alpha is {}: expected more than 0", lora.alpha);
  if (!(lora.dropout >= 0 && lora.dropout < 1))
    fail("lora.dropout is {}: expected at least 0 and less than 1", lora.dropout);
  // Dropout masks use 16 bits per element (base/random.h).
  if (lora.dropout > 0 && dropout_threshold(static_cast<float>(lora.dropout)) - 1U > 65534U)
    fail("lora.dropout is {}: expected 0, or a probability from 1/65536 to 65535/65536", lora.dropout);
  const std::vector<LoraTarget> targets = lora_targets(kind);
  for (std::string_view name : wanted_names(lora, kind)) {
    if (std::ranges::any_of(targets, [&](const LoraTarget& target) { return matches(name, target); })) continue;
    std::vector<std::string_view> known;
    for (const LoraTarget& target : targets)
      if (std::ranges::find(known, last_word(target.hugging_face)) == known.end())
        known.push_back(last_word(target.hugging_face));
    fail("lora.targets: this kind of model has no linear \"{}\"; it has {}", name, fmt::join(known, ", "));
  }
  if (adapted_targets(lora, kind).empty()) fail("lora.targets \"{}\" names no linear", lora.targets);
}

}  // namespace partita
