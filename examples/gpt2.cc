// gpt2 TEXT [STEPS]: a GPT-2 of bytes, made of torch::nn as in any program of one process. One line makes it ZeRO.
#include <partita/partita.h>
#include <torch/torch.h>

#include <cmath>
#include <fstream>

using namespace partita;
namespace nn = torch::nn;

constexpr int64_t kVocabulary = 256, kWidth = 64, kHeads = 4, kLayers = 2, kLength = 64, kGlobalBatch = 12;

nn::Linear linear(int64_t inputs, int64_t outputs, double deviation = 0.02) {
  nn::Linear made(inputs, outputs);
  nn::init::normal_(made->weight, 0, deviation);
  nn::init::zeros_(made->bias);
  return made;
}

struct LayerImpl : nn::Module {
  LayerImpl() {
    for (const auto& [name, module] : std::vector<std::pair<std::string, nn::Linear>>{
             {"c_attn", c_attn}, {"c_proj", c_proj}, {"c_fc", c_fc}, {"mlp_proj", mlp_proj}})
      register_module(name, module);
    register_module("ln_1", ln_1);
    register_module("ln_2", ln_2);
  }
  torch::Tensor forward(torch::Tensor x) {  // [samples, length, width]
    std::vector<torch::Tensor> qkv = c_attn(ln_1(x)).chunk(3, -1);
    for (torch::Tensor& t : qkv) t = t.unflatten(-1, {kHeads, kWidth / kHeads}).transpose(1, 2);
    const torch::Tensor heads = torch::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0, /*is_causal=*/true);
    x = x + c_proj(heads.transpose(1, 2).flatten(2));
    return x + mlp_proj(torch::gelu(c_fc(ln_2(x)), "tanh"));
  }
  static double residual_deviation() { return 0.02 / std::sqrt(2.0 * kLayers); }
  nn::LayerNorm ln_1{nn::LayerNormOptions({kWidth})}, ln_2{nn::LayerNormOptions({kWidth})};
  nn::Linear c_attn = linear(kWidth, 3 * kWidth), c_proj = linear(kWidth, kWidth, residual_deviation()),
             c_fc = linear(kWidth, 4 * kWidth), mlp_proj = linear(4 * kWidth, kWidth, residual_deviation());
};
TORCH_MODULE(Layer);

struct Gpt2Impl : nn::Module {
  Gpt2Impl() {
    register_module("wte", wte);
    register_module("wpe", wpe);
    for (int64_t i = 0; i < kLayers; ++i) h->push_back(Layer());
    register_module("h", h);
    register_module("ln_f", ln_f);
    for (nn::Embedding& table : {std::ref(wte), std::ref(wpe)}) nn::init::normal_(table->weight, 0, 0.02);
  }
  torch::Tensor loss(const torch::Tensor& tokens) {  // [samples, length + 1]
    torch::Tensor x = wte(tokens.narrow(1, 0, kLength)) + wpe(torch::arange(kLength, tokens.device()));
    for (const auto& layer : *h) x = layer->as<Layer>()->forward(x);
    const torch::Tensor logits = nn::functional::linear(ln_f(x), wte->weight);  // tied to the embedding
    return nn::functional::cross_entropy(logits.flatten(0, 1), tokens.narrow(1, 1, kLength).flatten());
  }
  nn::Embedding wte{kVocabulary, kWidth}, wpe{kLength, kWidth};
  nn::ModuleList h;
  nn::LayerNorm ln_f{nn::LayerNormOptions({kWidth})};
};
TORCH_MODULE(Gpt2);

torch::Tensor bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (std::ssize(text) <= kLength) fail("{}: {} bytes, expected a text of more than {}", path, text.size(), kLength);
  return torch::from_blob(text.data(), {std::ssize(text)}, torch::kByte).to(torch::kLong);
}

int main(int count, char** arguments) try {
  if (count < 2) fail("usage: gpt2 TEXT [STEPS]");
  const int64_t steps = count > 2 ? std::stoll(arguments[2]) : 100;
  World world = World::connect({});
  configure_threads(world);
  if (kGlobalBatch % world.size() != 0)
    fail("gpt2: {} samples on {} ranks: expected a number of ranks that divides them", kGlobalBatch, world.size());
  Mesh mesh(world, select_device(DeviceRequest::automatic, world));
  const torch::Tensor windows = bytes_of(arguments[1]).unfold(0, kLength + 1, 1);  // wherever one can begin

  torch::manual_seed(7);
  Gpt2 model;
  model->to(mesh.device());
  // In one process this is: torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  ZeroOptimizer optimizer(named(*model), mesh, {.learning_rate = 1e-3, .max_norm = 0});

  const torch::Tensor shown = torch::arange(16) * (windows.size(0) / 16);  // the loss that is logged is of these
  for (int64_t step = 0; step <= steps; ++step) {
    torch::manual_seed(100 + step);  // ranks draw the same global batch, of which each takes its samples
    const torch::Tensor batch = windows.index_select(0, torch::randint(windows.size(0), {kGlobalBatch}));
    const torch::Tensor mine = batch.tensor_split(world.size())[static_cast<size_t>(world.rank())];
    if (step % 50 == 0) {
      const torch::NoGradGuard none;
      const double loss = model->loss(windows.index_select(0, shown).to(mesh.device())).item<double>();
      if (world.rank() == 0) log::info("step {}: loss {:.4f}", step, loss);
    }
    optimizer.zero_grad();
    model->loss(mine.to(mesh.device())).backward();
    optimizer.step();
  }
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());
}
