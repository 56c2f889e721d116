#include "partita/comm/mesh.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

// Every way to divide the ranks: a sum over each coordinate's group counts its ranks.
TEST(MeshRanks, GroupsAreThoseOfTheLayout) {
  World& world = test_world();
  CpuStream stream;
  for (int tensor = 1; tensor <= world.size(); ++tensor)
    for (int context = 1; context * tensor <= world.size(); ++context)
      for (int pipeline = 1; pipeline * context * tensor <= world.size(); ++pipeline) {
        if (world.size() % (tensor * context * pipeline) != 0) continue;
        const Mesh mesh(world, {.data = world.size() / tensor / context / pipeline,
                                .tensor = tensor,
                                .pipeline = pipeline,
                                .context = context});
        const auto sum_of_ranks = [&](Communicator& group) {
          at::Tensor sum = at::full({1}, world.rank(), at::kLong);
          group.all_reduce(sum, Reduce::sum, stream).wait();
          return sum.item<int64_t>();
        };
        const auto expected = [](const std::vector<int>& ranks) {
          int64_t sum = 0;
          for (int r : ranks) sum += r;
          return sum;
        };
        EXPECT_EQ(sum_of_ranks(mesh.data()), expected(mesh.layout().data_group(world.rank())));
        EXPECT_EQ(sum_of_ranks(mesh.context()), expected(mesh.layout().context_group(world.rank())));
        EXPECT_EQ(sum_of_ranks(mesh.data_context()), expected(mesh.layout().data_context_group(world.rank())));
        EXPECT_EQ(sum_of_ranks(mesh.tensor()), expected(mesh.layout().tensor_group(world.rank())));
        EXPECT_EQ(sum_of_ranks(mesh.pipeline()), expected(mesh.layout().pipeline_group(world.rank())));
        EXPECT_EQ(sum_of_ranks(mesh.world()), expected(test_ranks()));
        EXPECT_EQ(mesh.data().rank(), mesh.position().data);
        EXPECT_EQ(mesh.context().rank(), mesh.position().context);
        EXPECT_EQ(mesh.data_context().rank(), mesh.position().data * context + mesh.position().context);
        EXPECT_EQ(mesh.tensor().rank(), mesh.position().tensor);
        EXPECT_EQ(mesh.pipeline().rank(), mesh.position().pipeline);
      }
}

}  // namespace
}  // namespace partita::internal
