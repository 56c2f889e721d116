// Argument checks of collectives, shared by all backends. Errors name group, call and tensor.
#pragma once
#include "partita/comm/communicator.h"

namespace partita::internal {

// `where`: the device type of the backend's tensors.
void check_tensor(const Communicator&, const char* call, const at::Tensor&, at::DeviceType where = at::kCPU);
void check_all_gather(const Communicator&, const at::Tensor& full, const at::Tensor& slice,
                      at::DeviceType where = at::kCPU);
void check_all_to_all(const Communicator&, const at::Tensor& out, const at::Tensor& in,
                      at::DeviceType where = at::kCPU);
void check_exchange(const Communicator&, const at::Tensor& out, const std::vector<at::Tensor>& sent,
                    at::DeviceType where = at::kCPU);
void check_reduce_scatter(const Communicator&, const at::Tensor& slice, const at::Tensor& full,
                          at::DeviceType where = at::kCPU);
void check_all_reduce(const Communicator&, const at::Tensor&, at::DeviceType where = at::kCPU);
// `name`: the argument that holds the rank. Any rank of the group; check_other: except this one.
void check_peer(const Communicator&, const char* call, const char* name, int rank);
void check_other(const Communicator&, const char* call, const char* name, int rank);

}  // namespace partita::internal
