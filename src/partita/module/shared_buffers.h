// Gives all ranks the buffers of rank 0, such as the running statistics of batch norm, which are those of a rank's own
// samples.
//
//   SharedBuffers shared(untrained.buffers, mesh.data(), mesh.device());
//   shared.share();                                                     // after each step
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/device/stream.h"
#include "partita/module/parameter_group.h"

namespace partita::internal {

class SharedBuffers {
 public:
  // Tensors on the device, of the same shapes and dtypes on all ranks.
  SharedBuffers(const std::vector<NamedParameter>&, Communicator&, at::Device);

  // In one message. Collective.
  void share();

 private:
  Communicator& ranks_;
  std::vector<at::Tensor> tensors_;  // by size of an element, descending: so that each begins where its type may
  std::unique_ptr<Stream> stream_;
};

}  // namespace partita::internal
