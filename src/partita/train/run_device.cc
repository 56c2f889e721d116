#include "partita/train/run_device.h"

#include <algorithm>

#include "partita/base/log.h"
#include "partita/comm/device.h"
#include "partita/device/device_stream.h"
#include "partita/device/graph_runner.h"
#include "partita/nn/layer.h"
#include "partita/ops/attention_self_check.h"
#include "partita/ops/deterministic.h"
#include "partita/ops/precision_note.h"
#include "partita/profile/matmul_tuning.h"
#include "partita/train/build_model.h"
#include "partita/train/token_samples.h"

namespace partita::internal {
namespace {

// Of the layer with the most heads on this rank: all of them, where some layer's attention is replicated.
Heads most_heads(const Config& config, int tensor_rank) {
  const ModelConfig& m = config.model;
  const TensorDivision division = tensor_division(config);
  const bool divided = std::ranges::all_of(division.layers, &LayerDivision::attention);
  const LayerOptions layer{.width = m.hidden_size,
                           .ffn_width = m.ffn_size(),
                           .tensor = tensor_split(config, tensor_rank),
                           .divides_attention = divided,
                           .divides_mlp = false};
  return local_layer(layer, {.heads = m.heads, .kv_heads = m.key_value_heads(), .head_width = m.head_size()}).heads;
}

}  // namespace

int64_t prepare_device(const Config& config, const Mesh& mesh, Peers& peers) {
  const at::Device device = mesh.device();
  const TrainConfig& t = config.train;
  const DType precision = config.precision.compute;
  (void)tunes_matmul(config.kernels.tune_matmul, device.is_cuda(), is_deterministic(), t.steps);
  if (device.is_cpu()) {
    const std::string note = cpu_precision_note(precision);
    if (peers.rank() == 0 && !note.empty()) log::info("{}", note);
    return 0;
  }
  // The memory reserved below belongs to the current stream, which must be the one the engine will use.
  if (records_steps(config, parameters_per_layer(config), mesh.layout().ranks(), device.is_cuda()))
    leave_default_stream(device);
  log::info("training on {}", describe_devices(agree(peers, [&] { return describe_device(device); })));
  const bool checked = config.debug.self_check;
  for (Communicator* group :
       {&mesh.data_context(), &mesh.context(), &mesh.tensor(), &mesh.key_value(), &mesh.pipeline()})
    if (checked && group->size() > 1) self_check(*group, device, *make_stream(device, StreamUse::compute));
  // Attention masked at document boundaries does not use the library.
  if (documents_of(config.data) == Documents::separate) return 0;
  const ModelConfig& m = config.model;
  const Heads heads = most_heads(config, mesh.position().tensor);
  int64_t workspace = 0;
  (void)agree(peers, [&] {
    const int64_t length = tokens_of_sample(config);
    const ContextSplit context = context_split(config, mesh.position().context);
    if (checked) attention_self_check(device, precision, t.micro_batch, length, heads, context);
    workspace = reserve_workspace(device, precision, t.micro_batch, length, heads,
                                  static_cast<float>(m.attention_dropout), context);
    return std::string();
  });
  return workspace;
}

}  // namespace partita::internal
