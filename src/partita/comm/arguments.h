// Checks of what a collective is called with, the same in every backend. Errors name group, call and tensor.
#pragma once
#include "partita/comm/communicator.h"

namespace partita::internal {

// `where` the backend's tensors lie: host memory, or a device.
void check_tensor(const Communicator&, const char* call, const at::Tensor&, at::DeviceType where = at::kCPU);
void check_all_gather(const Communicator&, const at::Tensor& full, const at::Tensor& slice,
                      at::DeviceType where = at::kCPU);
void check_all_to_all(const Communicator&, const at::Tensor& out, const at::Tensor& in,
                      at::DeviceType where = at::kCPU);
void check_reduce_scatter(const Communicator&, const at::Tensor& slice, const at::Tensor& full,
                          at::DeviceType where = at::kCPU);
void check_all_reduce(const Communicator&, const at::Tensor&, at::DeviceType where = at::kCPU);
// `name`: of the argument that says which rank. Any rank of the group; check_other: and not this one.
void check_peer(const Communicator&, const char* call, const char* name, int rank);
void check_other(const Communicator&, const char* call, const char* name, int rank);

}  // namespace partita::internal
