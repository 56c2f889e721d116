// transformer [STAGE]: a transformer made of torch::nn on padded batches of text, with any stage of ZeRO.
#include <partita/partita.h>
#include <torch/torch.h>

#include <cmath>

using namespace partita;
namespace nn = torch::nn;

constexpr int64_t kVocabulary = 29, kPadding = 0, kWidth = 64, kLongest = 24;

// Predicts the next character. Nothing in it knows of other ranks.
struct LanguageModelImpl : nn::Module {
  LanguageModelImpl() {
    for (int i = 0; i < 3; ++i)
      layers->push_back(nn::TransformerEncoderLayer(
          nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(4 * kWidth).dropout(0)));
    register_module("table", table);
    register_module("places", places);
    register_module("layers", layers);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& tokens) {  // [samples, length] to [samples, length, vocabulary]
    const int64_t length = tokens.size(1);
    const torch::Tensor later = torch::full({length, length}, -INFINITY, tokens.device()).triu(1);
    torch::Tensor x = (table(tokens) + places(torch::arange(length, tokens.device()))).transpose(0, 1);
    for (const auto& layer : *layers) x = layer->as<nn::TransformerEncoderLayer>()->forward(x, later);
    return head(x.transpose(0, 1));
  }
  nn::Embedding table{kVocabulary, kWidth}, places{kLongest, kWidth};
  nn::ModuleList layers;
  nn::Linear head{kWidth, kVocabulary};
};
TORCH_MODULE(LanguageModel);

// Sentences of unlike length, padded: [samples, kLongest + 1].
torch::Tensor batch(int64_t samples) {
  torch::Tensor tokens = torch::full({samples, kLongest + 1}, kPadding, torch::kLong);
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t start = torch::randint(26, {1}).item<int64_t>(), stride = torch::randint(1, 4, {1}).item<int64_t>();
    for (int64_t i = 0, length = torch::randint(8, kLongest + 2, {1}).item<int64_t>(); i < length; ++i)
      tokens[s][i] = 1 + (start + i * stride) % 26;
  }
  return tokens;
}

int main(int count, char** arguments) try {
  World world = World::connect({});
  configure_threads(world);
  Mesh mesh(world, select_device(DeviceRequest::automatic, world));
  torch::manual_seed(7);
  // Its matrices get memory one after the other: here by to(device), on a CPU by the optimizer, which keeps slices.
  LanguageModel model = construct_lazily([] { return LanguageModel(); });
  model->to(mesh.device());
  ZeroOptimizer optimizer(named(*model), mesh,
                          {.stage = count > 1 ? std::stoi(arguments[1]) : 3, .learning_rate = 2e-3});

  torch::manual_seed(100 + world.rank());
  for (int step = 0; step <= 120; ++step) {
    const torch::Tensor tokens = batch(16).to(mesh.device());
    model->zero_grad();  // allowed, though a step leaves no gradients
    const torch::Tensor labels = tokens.narrow(1, 1, kLongest).reshape({-1});
    const torch::Tensor logits = model->forward(tokens.narrow(1, 0, kLongest)).reshape({-1, kVocabulary});
    // The mean over the tokens of all ranks: step takes the mean of the ranks' gradients, and their batches have unlike
    // numbers of tokens.
    const double own = labels.ne(kPadding).sum().item<double>(), mean = sum_over(mesh.data(), own) / world.size();
    const torch::Tensor loss = nn::functional::cross_entropy(
        logits, labels, nn::functional::CrossEntropyFuncOptions().ignore_index(kPadding).reduction(torch::kSum));
    (loss / mean).backward();
    optimizer.step();
    if (world.rank() == 0 && step % 40 == 0) log::info("step {}: loss {:.4f}", step, loss.item<double>() / own);
  }
  // Whole tensors on rank 0, from whatever slices the ranks have.
  const StateDict state = optimizer.state_dict();
  if (world.rank() == 0) {
    std::vector<torch::Tensor> weights;
    for (const NamedParameter& p : named(*model)) weights.push_back(state.at(p.name));
    torch::save(weights, "transformer.pt");
  }
  const ZeroOptimizer::Memory memory = optimizer.memory();
  if (world.rank() == 0)
    log::info("bytes on each rank: weights {}, gradients {}, optimizer {}", memory.weights, memory.gradients,
              memory.optimizer);
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());
}
