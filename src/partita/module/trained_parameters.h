// Which of the parameters that a user hands over are trained, and whether they can be.
#pragma once
#include <c10/core/Device.h>

#include <string_view>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/module/parameter_group.h"

namespace partita::internal {

// Errors: the parameter is undefined, or on another device; they begin with the caller's name.
void require_on_device(const NamedParameter&, c10::Device, std::string_view caller);

// Leaves in the groups what is trained, each parameter once, and returns those that require no gradient. Errors, with
// the parameter's name: undefined; on another device; not a leaf; a dtype other than fp32, bf16 and fp16; owned by
// another optimizer; a name or memory that it shares with another one; nothing is trained; the construction of lazy
// modules has not ended on this thread. Lazy parameters stay so.
std::vector<NamedParameter> take_trained(std::vector<ParameterGroup>&, c10::Device);

// Takes out of `frozen` the parameters that can be divided among ranks. The others stay whole: of a dtype that is not
// trained, sharing memory with another parameter, or held by another optimizer.
std::vector<NamedParameter> take_dividable(std::vector<NamedParameter>& frozen,
                                           const std::vector<ParameterGroup>& trained);

// Collective. Errors: ranks have other options, as a text; with a rank: its parameters are not those of rank 0, by
// group, name, dtype, shape, or whether they are trained. A rank with another model would wait for collectives that the
// others do not make.
void require_equal_on_ranks(const std::vector<ParameterGroup>&, const std::string& options, Communicator&);

}  // namespace partita::internal
