// llama [TENSOR [PIPELINE]]: a Llama made of torch::nn, trained in three dimensions: divided over TENSOR ranks by a
// plan of names, over PIPELINE ranks by its layers, and by ZeRO over the rest.
#include <partita/partita.h>
#include <torch/torch.h>

#include <cmath>

using namespace partita;
namespace nn = torch::nn;

constexpr int64_t kVocabulary = 61, kWidth = 48, kHead = 8, kHeads = 6, kKeyHeads = 3, kInner = 100, kLayers = 4;
constexpr int64_t kLength = 32, kSamples = 4;
constexpr int kMicroBatches = 4;

nn::Linear linear(int64_t inputs, int64_t outputs) {
  return nn::Linear(nn::LinearOptions(inputs, outputs).bias(false));
}

torch::Tensor rms_norm(const torch::Tensor& x) { return x * x.square().mean(-1, true).add(1e-5).rsqrt(); }

torch::Tensor rotated(const torch::Tensor& x) {  // [samples, heads, length, head]
  const torch::Tensor inverse = torch::pow(10000, torch::arange(0, kHead, 2, x.device()) * (-1.0 / kHead));
  const torch::Tensor angle = torch::outer(torch::arange(x.size(2), x.device()), inverse).repeat({1, 2});
  const auto halves = x.chunk(2, -1);
  return x * angle.cos() + torch::cat({-halves[1], halves[0]}, -1) * angle.sin();
}

// Knows nothing of other ranks: the number of heads follows from what the projections return.
struct LayerImpl : nn::Module {
  LayerImpl() {
    for (const auto& [name, module] : std::vector<std::pair<std::string, nn::Linear>>{{"q_proj", q},
                                                                                      {"k_proj", k},
                                                                                      {"v_proj", v},
                                                                                      {"o_proj", o},
                                                                                      {"gate_proj", gate},
                                                                                      {"up_proj", up},
                                                                                      {"down_proj", down}})
      register_module(name, module);
  }
  torch::Tensor forward(const torch::Tensor& x) {  // [samples, length, width]
    const torch::Tensor h = rms_norm(x);
    const auto heads = [&](const torch::Tensor& t) {
      return t.view({x.size(0), x.size(1), -1, kHead}).transpose(1, 2);
    };
    const auto repeated = [](const torch::Tensor& t) { return t.repeat_interleave(kHeads / kKeyHeads, 1); };
    const torch::Tensor a = torch::scaled_dot_product_attention(rotated(heads(q(h))), repeated(rotated(heads(k(h)))),
                                                                repeated(heads(v(h))), {}, 0, /*is_causal=*/true);
    const torch::Tensor y = x + o(a.transpose(1, 2).flatten(2));
    const torch::Tensor g = rms_norm(y);
    return y + down(torch::silu(gate(g)) * up(g));
  }
  nn::Linear q = linear(kWidth, kHeads*kHead), k = linear(kWidth, kKeyHeads*kHead), v = linear(kWidth, kKeyHeads*kHead),
             o = linear(kHeads * kHead, kWidth), gate = linear(kWidth, kInner), up = linear(kWidth, kInner),
             down = linear(kInner, kWidth);
};
TORCH_MODULE(Layer);

torch::Tensor batch(int64_t step, int64_t number) {  // each token follows from the one before
  torch::manual_seed(1000 * step + number);
  const torch::Tensor first = torch::randint(kVocabulary, {kSamples, 1}), i = torch::arange(kLength + 1).unsqueeze(0);
  return (first + i * 7).remainder(kVocabulary);
}

int main(int count, char** arguments) try {
  World world = World::connect({});
  configure_threads(world);
  const int tensor = count > 1 ? std::stoi(arguments[1]) : 1, pipeline = count > 2 ? std::stoi(arguments[2]) : 1;
  Mesh mesh(world, {.data = world.size() / tensor / pipeline, .tensor = tensor, .pipeline = pipeline},
            select_device(DeviceRequest::automatic, world));

  torch::manual_seed(7);  // the same model on every rank
  nn::Embedding table(kVocabulary, kWidth);
  std::vector<Layer> layers(kLayers);
  nn::Linear head = linear(kWidth, kVocabulary);
  table->to(mesh.device());
  head->to(mesh.device());
  std::vector<PipelinePart> parts{pipeline_part("embed_tokens", table)};
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i]->to(mesh.device());
    parts.push_back(pipeline_part("layers." + std::to_string(i), layers[i]));
  }
  parts.push_back(pipeline_part("lm_head", head));

  std::vector<NamedParameter> all;
  for (const PipelinePart& part : parts) all.insert(all.end(), part.parameters.begin(), part.parameters.end());
  parallelize(all, mesh, llama_plan(kHead, kHeads, kKeyHeads));
  Pipeline model(parts, mesh, {.schedule = PipelineSchedule::one_f_one_b, .micro_batches = kMicroBatches});
  ZeroOptimizer optimizer(model.parameters(), mesh,
                          {.stage = 2, .learning_rate = 3e-3, .micro_batches = model.passes()});

  for (int step = 0; step <= 60; ++step) {
    const auto tokens = [&](int m) { return batch(step, mesh.data().rank() * kMicroBatches + m).to(mesh.device()); };
    const double loss = model.step(
        optimizer, [&](int m) { return std::vector<torch::Tensor>{tokens(m).narrow(1, 0, kLength)}; },
        [&](const std::vector<torch::Tensor>& logits, int m) {
          return nn::functional::cross_entropy(logits[0].flatten(0, 1), tokens(m).narrow(1, 1, kLength).flatten());
        });
    const ZeroStep r = optimizer.step();
    if (world.rank() == 0 && step % 20 == 0)
      log::info("step {}: loss {:.4f}, gradient norm {:.4f}", step, loss, r.grad_norm);
  }
  const std::vector<NamedParameter> weights = optimizer.weights();  // whole, of all stages
  if (world.rank() == 0) log::info("{} weights", weights.size());
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());
}
