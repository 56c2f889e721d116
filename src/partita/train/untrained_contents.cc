#include "partita/train/untrained_contents.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/device/scalar_type.h"
#include "partita/module/tensor_placement.h"
#include "partita/train/checkpoint_pieces.h"

namespace partita::internal {
namespace {

using nlohmann::json;

// None: stored as bytes.
std::optional<DType> stored_type(at::ScalarType type) {
  const std::optional<DType> found = find_dtype(type);
  return found == DType::uint8 ? std::nullopt : found;
}

// Null: this rank has all of it.
const TensorPlacement* division_of(const NamedParameter& p) {
  const TensorPlacement* placement = placement_of(p.tensor);
  if (placement == nullptr || !placement->divided()) return nullptr;
  if (p.tensor.sizes() != at::IntArrayRef(placement->spec.local_shape()))
    fail("{} was divided over tensor-parallel ranks, and has another shape since: [{}], expected [{}]", p.name,
         fmt::join(p.tensor.sizes(), ", "), fmt::join(placement->spec.local_shape(), ", "));
  if (!stored_type(p.tensor.scalar_type()))
    fail(
        "{} is {} and divided over tensor-parallel ranks, expected fp32, bf16, fp16, int32 or int64: convert it before "
        "it is divided, or give it the role replicate",
        p.name, at::toString(p.tensor.scalar_type()));
  return placement;
}

at::Tensor host_memory_like(const at::Tensor& t) { return at::empty(t.sizes(), at::TensorOptions(t.scalar_type())); }

std::span<const std::byte> bytes_of(const at::Tensor& values) {
  return {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()};
}

}  // namespace

struct UntrainedContents::Description {
  std::string name;
  std::vector<int64_t> shape;  // of the whole
  at::ScalarType type;
  bool frozen;  // else a buffer

  static Description from(const json& j) {
    return {j[0], j[1], static_cast<at::ScalarType>(j[2].get<int>()), j[3].get<bool>()};
  }
  [[nodiscard]] json to_json() const { return {name, shape, static_cast<int>(type), frozen}; }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} {} [{}]", frozen ? "frozen parameter" : "buffer", name, at::toString(type),
                       fmt::join(shape, ", "));
  }
  [[nodiscard]] TensorInfo info() const {
    TensorInfo info{"untrained/" + name, shape};
    if (const std::optional<DType> stored = stored_type(type))
      info.dtype = *stored;
    else
      info = {info.name, {info.count() * static_cast<int64_t>(c10::elementSize(type))}, DType::uint8};
    return info;
  }
};

namespace {

std::string differing(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  return fmt::format("{}, expected {}", in_b == b.end() ? "nothing" : *in_b, in_a == a.end() ? "nothing" : *in_a);
}

}  // namespace

UntrainedContents::UntrainedContents(const Untrained& untrained, const OptimizerContents& optimizer, const Mesh& mesh)
    : optimizer_(optimizer), mesh_(mesh) {
  CommunicatorPeers peers(mesh.world());
  std::vector<Description> own;
  std::vector<std::string> texts;
  const std::vector<std::string> sums = agree(peers, [&] {
    own = describe(untrained);
    for (const Description& d : own) texts.push_back(d.text());
    return checksum_text(checksum(json(texts).dump()));
  });
  // A rank with other tensors than its data-parallel neighbors would store, or load, another model.
  for (int rank = 0; rank < peers.size(); ++rank) {
    MeshLayout::Position first;
    first.pipeline = mesh.layout().position(rank).pipeline;
    const int expected = mesh.layout().rank(first);
    if (sums[static_cast<size_t>(rank)] == sums[static_cast<size_t>(expected)]) continue;
    const std::vector<std::string> lists = peers.gather(json(texts).dump());
    fail("the buffers and frozen parameters of rank {} are not those of rank {}, which has the same stage: {}", rank,
         expected,
         differing(json::parse(lists[static_cast<size_t>(expected)]), json::parse(lists[static_cast<size_t>(rank)])));
  }
  merge_stages(own);
  find_slices();
}

// Adds a part for each tensor.
std::vector<UntrainedContents::Description> UntrainedContents::describe(const Untrained& untrained) {
  std::vector<Description> all;
  std::set<std::string> names;
  const auto add = [&](const NamedParameter& p, bool frozen) {
    if (!p.tensor.defined())
      fail("tensor {} is undefined: leave it out of what is saved besides the parameters", p.name);
    if (!names.insert(p.name).second) fail("two tensors that are saved besides the parameters are called {}", p.name);
    Part part{.held = p.tensor, .frozen = frozen};
    if (const TensorPlacement* division = division_of(p)) {
      all.push_back({p.name, division->spec.shape, p.tensor.scalar_type(), frozen});
      part.boxes = division->spec.local;
    } else {
      all.push_back({p.name, p.tensor.sizes().vec(), p.tensor.scalar_type(), frozen});
      part.boxes = {{.box = whole_box(all.back().info().shape), .primary = mesh_.tensor().rank() == 0}};
    }
    parts_.push_back(std::move(part));
  };
  for (const NamedParameter& buffer : untrained.buffers) add(buffer, /*frozen=*/false);
  for (const NamedParameter& p : untrained.frozen) add(p, /*frozen=*/true);
  return all;
}

void UntrainedContents::merge_stages(const std::vector<Description>& own) {
  struct Holders {
    size_t tensor;
    Description description;
    int first, count;  // ranks of the pipeline
  };
  json mine = json::array();
  for (const Description& d : own) mine.push_back(d.to_json());
  std::map<std::string, Holders> holders;
  const std::vector<std::string> stages = gather_strings(mesh_.pipeline(), mine.dump());
  for (int rank = 0; rank < std::ssize(stages); ++rank)
    for (const json& j : json::parse(stages[static_cast<size_t>(rank)])) {
      const Description d = Description::from(j);
      const auto [found, is_new] = holders.try_emplace(d.name, Holders{tensors_.size(), d, rank, 0});
      ++found->second.count;
      if (!is_new && d.text() != found->second.description.text())
        fail("{}, of rank {} of the pipeline, and {}, of its rank {}, have one name: give the parts different names",
             found->second.description.text(), found->second.first, d.text(), rank);
      if (!is_new) continue;
      tensors_.push_back(d.info());
      if (d.frozen) frozen_elements_ += TensorInfo{.name = d.name, .shape = d.shape}.count();
    }
  for (size_t p = 0; p < parts_.size(); ++p) {
    const Holders& of_name = holders.at(own[p].name);
    parts_[p].tensor = of_name.tensor;
    parts_[p].stores = mesh_.data().rank() == 0 && mesh_.pipeline().rank() == of_name.first;
    parts_[p].on_several_stages = of_name.count > 1;
  }
}

// Slices of different stages could not be compared: what several have is treated as a whole.
void UntrainedContents::find_slices() {
  std::map<const void*, const OptimizerContents::Frozen*> divided;
  for (const OptimizerContents::Frozen& frozen : optimizer_.frozen)
    divided.emplace(frozen.parameter.unsafeGetTensorImpl(), &frozen);
  for (Part& part : parts_)
    if (const auto found = divided.find(part.held.unsafeGetTensorImpl());
        found != divided.end() && !part.on_several_stages)
      part.slices = found->second;
}

void UntrainedContents::add_saved(CheckpointContents& contents) {
  const at::NoGradGuard none;
  for (Part& part : parts_) {
    if (part.slices != nullptr) continue;
    at::Tensor values = host_memory_like(part.held);
    values.copy_(part.held);  // on every rank, because with ZeRO-3 all gather it
    if (part.stores || (part.on_several_stages && mesh_.data().rank() == 0)) part.values = std::move(values);
  }
  require_same_values();
  add_to(contents, /*saved=*/true);
}

void UntrainedContents::add_loaded(CheckpointContents& contents) {
  for (Part& part : parts_)
    if (part.slices == nullptr) part.values = host_memory_like(part.held);
  add_to(contents, /*saved=*/false);
}

void UntrainedContents::take_loaded() const {
  const at::NoGradGuard none;
  for (const Part& part : parts_)
    if (part.slices == nullptr) part.held.copy_(part.values);
}

// Of tensors that several stages have: the first of them stores it, for all.
void UntrainedContents::require_same_values() const {
  if (mesh_.pipeline().size() == 1) return;
  json mine = json::object();
  for (const Part& part : parts_)
    if (part.on_several_stages && part.values.defined())
      mine[tensors_[part.tensor].name] = checksum(bytes_of(part.values));
  CommunicatorPeers all(mesh_.world());
  const std::vector<std::string> stages = gather_strings(mesh_.pipeline(), mine.dump());
  (void)agree(all, [&] {
    std::map<std::string, std::pair<uint64_t, int>> first;
    for (int rank = 0; rank < std::ssize(stages); ++rank) {
      const json of_rank = json::parse(stages[static_cast<size_t>(rank)]);
      for (const auto& [name, sum] : of_rank.items())
        if (const auto& [found, is_new] = first.try_emplace(name, sum.get<uint64_t>(), rank);
            found->second.first != sum.get<uint64_t>())
          fail(
              "{} has other values on rank {} of the pipeline than on its rank {}, and a checkpoint has one of each "
              "name: give the parts different names",
              name, rank, found->second.second);
    }
    return std::string();
  });
}

void UntrainedContents::add_to(CheckpointContents& contents, bool saved) const {
  const auto first = static_cast<int>(contents.tensors.size());
  contents.tensors.insert(contents.tensors.end(), tensors_.begin(), tensors_.end());
  for (const Part& part : parts_) {
    if (part.slices != nullptr) {
      for (const OwnedBox& owned : part.slices->boxes)
        if (!saved || owned.primary)
          add_pieces(contents, first + static_cast<int>(part.tensor), owned,
                     {.reads = device_reads(owned.values[0].device()),
                      .replica = saved ? optimizer_.replica : 0,
                      .replicas = saved ? optimizer_.replicas : 1,
                      .constant = true});
      continue;
    }
    if (saved && !part.stores) continue;
    int64_t begin = 0;  // bytes
    for (const LocalBox& local : part.boxes) {
      if (!saved || local.primary)
        contents.pieces.push_back({.tensor = first + static_cast<int>(part.tensor),
                                   .box = local.box,
                                   .data = static_cast<std::byte*>(part.values.data_ptr()) + begin,
                                   .constant = part.frozen});
      begin += local.box.count() * size_of(tensors_[part.tensor].dtype);
    }
  }
}

}  // namespace partita::internal
