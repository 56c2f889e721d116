// A mesh of all ranks, data parallel, that records the collectives of ZeroOptimizer.
//
//   RecordedMesh recorded;
//   ZeroOptimizer optimizer(named(module), recorded.mesh);
//   EXPECT_EQ(recorded.data->count("broadcast"), 0);
#pragma once
#include <memory>

#include "partita/comm/mesh.h"
#include "partita/comm/recording.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

// A Mesh makes its communicators itself, and in production there is nothing else to put in their place. An explicit
// instantiation may name a private member.
using MeshMember = std::unique_ptr<Communicator> Mesh::*;
MeshMember data_of_mesh();
template <MeshMember Data>
struct ExposeMesh {
  friend MeshMember data_of_mesh() { return Data; }
};
template struct ExposeMesh<&Mesh::data_>;

// Of at least two ranks.
struct RecordedMesh {
  RecordedMesh() {
    auto recording = std::make_unique<RecordingCommunicator>(*inner);
    data = recording.get();
    mesh.*data_of_mesh() = std::move(recording);
  }
  Mesh mesh{test_world()};
  std::unique_ptr<Communicator> inner = std::move(mesh.*data_of_mesh());
  RecordingCommunicator* data = nullptr;
};

}  // namespace partita::internal::test
