#include "partita/comm/mesh.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/comm/device_communicator.h"

namespace partita {
using namespace internal;

MeshLayout::MeshLayout(Sizes sizes, int ranks) : sizes_(sizes) {
  if (sizes.data < 1 || sizes.context < 1 || sizes.tensor < 1 || sizes.pipeline < 1)
    fail("mesh: data {}, context {}, tensor {}, pipeline {}: each size must be at least 1", sizes.data, sizes.context,
         sizes.tensor, sizes.pipeline);
  const int64_t model = int64_t{sizes.context} * sizes.tensor * sizes.pipeline, product = sizes.data * model;
  if (product == ranks) return;
  const std::string advice = ranks % model == 0
                                 ? fmt::format("set data to {} or start {} ranks", ranks / model, product)
                                 : fmt::format("start {} ranks, or another multiple of {}", product, model);
  fail("mesh: data {} x context {} x tensor {} x pipeline {} = {} ranks, but the job has {}: {}", sizes.data,
       sizes.context, sizes.tensor, sizes.pipeline, product, ranks, advice);
}

MeshLayout::Position MeshLayout::position(int rank) const {
  PARTITA_CHECK(rank >= 0 && rank < ranks(), "rank {} of {}", rank, ranks());
  return {.data = rank / (sizes_.tensor * sizes_.context) % sizes_.data,
          .tensor = rank % sizes_.tensor,
          .pipeline = rank / (sizes_.tensor * sizes_.context * sizes_.data),
          .context = rank / sizes_.tensor % sizes_.context};
}

int MeshLayout::rank(Position at) const {
  return ((at.pipeline * sizes_.data + at.data) * sizes_.context + at.context) * sizes_.tensor + at.tensor;
}

std::vector<int> MeshLayout::along(int rank, int size, int Position::*coordinate) const {
  Position at = position(rank);
  std::vector<int> group;
  for (at.*coordinate = 0; at.*coordinate < size; ++(at.*coordinate)) group.push_back(this->rank(at));
  return group;
}

std::vector<int> MeshLayout::data_group(int rank) const { return along(rank, sizes_.data, &Position::data); }
std::vector<int> MeshLayout::context_group(int rank) const { return along(rank, sizes_.context, &Position::context); }

std::vector<int> MeshLayout::data_context_group(int rank) const {
  std::vector<int> all;
  for (const int same_piece : data_group(rank))
    for (const int other : context_group(same_piece)) all.push_back(other);
  std::ranges::sort(all);
  return all;
}

std::vector<int> MeshLayout::tensor_group(int rank) const { return along(rank, sizes_.tensor, &Position::tensor); }
std::vector<int> MeshLayout::pipeline_group(int rank) const {
  return along(rank, sizes_.pipeline, &Position::pipeline);
}

std::vector<int> MeshLayout::ends_group(int rank) const {
  const std::vector<int> all = pipeline_group(rank);
  if (all.size() == 1 || (rank != all.front() && rank != all.back())) return {rank};
  return {all.front(), all.back()};
}

std::vector<int> MeshLayout::key_value_group(int rank) const {
  if (sizes_.kv_heads == 0 || sizes_.kv_heads >= sizes_.tensor) return {rank};
  const auto held = [&](int other) { return sizes_.kv_heads * position(other).tensor / sizes_.tensor; };
  std::vector<int> group;
  for (const int other : tensor_group(rank))
    if (held(other) == held(rank)) group.push_back(other);
  return group;
}

Mesh::Mesh(World& world, MeshLayout::Sizes sizes, c10::Device device, std::chrono::milliseconds timeout)
    : layout_(sizes, world.size()), device_(device) {
  world_ = world.everyone("world");
  self_ = on_device(world.self(), device, timeout);
  // A group of one rank is this rank's own.
  const auto group = [&](const char* name, const std::vector<int>& ranks) {
    return ranks.size() == 1 ? nullptr : on_device(world.group(name, ranks), device, timeout);
  };
  data_ = group("dp", layout_.data_group(world.rank()));
  context_ = group("cp", layout_.context_group(world.rank()));
  if (sizes.context > 1) data_context_ = group("dpcp", layout_.data_context_group(world.rank()));
  tensor_ = group("tp", layout_.tensor_group(world.rank()));
  pipeline_ = group("pp", layout_.pipeline_group(world.rank()));
  key_value_ = group("kv", layout_.key_value_group(world.rank()));
  ends_ = group("ends", layout_.ends_group(world.rank()));
  if (sizes.pipeline > 1)
    edges_ = std::make_unique<PipelineEdges>(world, layout_.pipeline_group(world.rank()), device, timeout);
}

Mesh Mesh::alone(World& world, c10::Device device) {
  Mesh mesh(MeshLayout({}, 1), device);
  mesh.world_ = world.self();
  mesh.self_ = on_device(world.self(), device);
  return mesh;
}

Mesh::Mesh(World& world, c10::Device device) : Mesh(world, {.data = world.size()}, device) {}

}  // namespace partita
