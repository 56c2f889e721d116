// Times training steps of a decoder made of torch::nn modules with ZeroOptimizer. Prints JSON.
//
//   mpirun -n 2 build/bench/module_speed --stage 3 --layers 4 --width 512        # batch is that of a rank
//
// The same model on the same tokens as bench/peer/module_torch.py: parameters are drawn in the same order from the same
// seed, so that the losses of both agree. bench/compare_modules.py runs both in turn.
#include <ATen/DeviceAccelerator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/comm/device.h"
#include "partita/comm/host_threads.h"
#include "partita/comm/mesh.h"
#include "partita/comm/world.h"
#include "partita/device/device_use.h"
#include "partita/module/zero_optimizer.h"
#include "partita/profile/profile.h"

using namespace partita;
namespace nn = torch::nn;

namespace {

struct Shape {
  int64_t layers = 4, heads = 4, width = 256, length = 128, batch = 4, vocabulary = 4096;
};

// Pre-norm.
struct LayerImpl : nn::Module {
  explicit LayerImpl(const Shape& s)
      : heads(s.heads),
        norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({s.width})))),
        qkv(register_module("qkv", nn::Linear(s.width, 3 * s.width))),
        out(register_module("out", nn::Linear(s.width, s.width))),
        norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({s.width})))),
        up(register_module("up", nn::Linear(s.width, 4 * s.width))),
        down(register_module("down", nn::Linear(4 * s.width, s.width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const std::vector<at::Tensor> parts =
        qkv(norm1(x)).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true);
    const at::Tensor sum = x + out(y.transpose(1, 2).reshape({batch, length, width}));
    return sum + down(at::gelu(up(norm2(sum)), "tanh"));
  }

  int64_t heads;
  nn::LayerNorm norm1;
  nn::Linear qkv, out;
  nn::LayerNorm norm2;
  nn::Linear up, down;
};
TORCH_MODULE(Layer);

struct DecoderImpl : nn::Module {
  explicit DecoderImpl(const Shape& s)
      : token(register_module("token", nn::Embedding(s.vocabulary, s.width))),
        position(register_module("position", nn::Embedding(s.length, s.width))),
        layers(register_module("layers", nn::ModuleList())),
        norm(nullptr),
        head(nullptr) {
    for (int64_t i = 0; i < s.layers; ++i) layers->push_back(Layer(s));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({s.width})));
    head = register_module("head", nn::Linear(nn::LinearOptions(s.width, s.vocabulary).bias(false)));
  }

  // [batch, length] each; the mean loss.
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& labels) {
    at::Tensor x = token(tokens) + position->weight;
    for (const auto& layer : *layers) x = layer->as<Layer>()->forward(x);
    return at::cross_entropy_loss(head(norm(x)).flatten(0, 1).to(at::kFloat), labels.flatten());
  }

  nn::Embedding token, position;
  nn::ModuleList layers;
  nn::LayerNorm norm;
  nn::Linear head;
};
TORCH_MODULE(Decoder);

// A moment between steps: of the host, or of the device's stream, which the host does not wait for.
class Mark {
 public:
  explicit Mark(c10::Device device) {
    if (device.is_cpu()) return;
    const c10::impl::VirtualGuardImpl guard(device.type());
    event_ = std::make_shared<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    event_->record(guard.getStream(device));
  }
  [[nodiscard]] double milliseconds_until(const Mark& later) const {
    if (!event_) return std::chrono::duration<double, std::milli>(later.now_ - now_).count();
    later.event_->synchronize();
    return event_->elapsedTime(*later.event_);
  }

 private:
  std::chrono::steady_clock::time_point now_ = std::chrono::steady_clock::now();
  std::shared_ptr<c10::Event> event_;
};

struct Arguments {
  Shape shape;
  int stage = 1, steps = 10, warmup = 3;
  std::string precision = "fp32", device = "cpu", profile;
  std::optional<int64_t> unit_elements;
  bool alone = false;
};

Arguments read(int count, char** words) {
  Arguments a;
  CLI::App app("Times training steps of a decoder made of torch::nn modules with ZeroOptimizer.");
  app.add_option("--layers", a.shape.layers);
  app.add_option("--heads", a.shape.heads);
  app.add_option("--width", a.shape.width);
  app.add_option("--length", a.shape.length, "tokens of a sample");
  app.add_option("--batch", a.shape.batch, "samples of a rank");
  app.add_option("--vocabulary", a.shape.vocabulary);
  app.add_option("--stage", a.stage, "of ZeRO")->check(CLI::Range(0, 3));
  app.add_option("--steps", a.steps, "timed ones")->check(CLI::PositiveNumber);
  app.add_option("--warmup", a.warmup, "untimed steps before them")->check(CLI::PositiveNumber);
  app.add_option("--precision", a.precision, "of parameters and gradients")->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--device", a.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--alone", a.alone, "forward and backward only: no exchange, no update");
  app.add_option("--unit-elements", a.unit_elements, "ZeroOptimizerOptions::unit_elements");
  app.add_option("--profile", a.profile,
                 "a file for the timeline of rank 0's GPU in three more steps (ui.perfetto.dev)");
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return a;
}

nlohmann::json measure(const Arguments& a, const Mesh& mesh, World& world) {
  const Shape& s = a.shape;
  const c10::Device device = mesh.device();
  torch::manual_seed(0);
  Decoder model(s);
  model->to(device, a.precision == "bf16" ? at::kBFloat16 : at::kFloat);
  ZeroOptimizerOptions options{.stage = a.stage};
  if (a.unit_elements) options.unit_elements = *a.unit_elements;
  std::optional<ZeroOptimizer> optimizer;
  if (!a.alone) optimizer.emplace(named(*model), mesh, options);

  torch::manual_seed(1 + world.rank());
  const at::Tensor pool = torch::randint(s.vocabulary, {4, s.batch, s.length + 1}, at::kLong).to(device);
  std::vector<at::Tensor> losses;
  const auto step = [&] {
    const at::Tensor tokens = pool[std::ssize(losses) % pool.size(0)];
    const at::Tensor loss =
        model->forward(tokens.narrow(1, 0, s.length).contiguous(), tokens.narrow(1, 1, s.length).contiguous());
    loss.backward();
    if (optimizer)
      optimizer->step();
    else
      model->zero_grad();
    losses.push_back(loss.detach());
  };
  for (int i = 0; i < a.warmup; ++i) step();
  if (!device.is_cpu()) at::accelerator::resetPeakStats(device.index());  // of the steps, not of making the model
  const std::clock_t begun = std::clock();
  std::vector<Mark> marks{Mark(device)};
  for (int i = 0; i < a.steps; ++i) {
    step();
    marks.emplace_back(device);
  }
  const double host = 1000.0 * static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC / a.steps;
  std::vector<double> all;
  for (size_t i = 1; i < marks.size(); ++i) all.push_back(marks[i - 1].milliseconds_until(marks[i]));
  std::vector<double> sorted = all;
  std::ranges::sort(sorted);
  const double median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  nlohmann::json result{{"side", a.alone ? "alone" : "Partita"},
                        {"stage", a.stage},
                        {"precision", a.precision},
                        {"ranks", world.size()},
                        {"threads", at::get_num_threads()},
                        {"steps", a.steps},
                        {"ms", median},
                        {"all_ms", all},
                        {"host_ms", host},  // of a step, on the cores of this process: hardly depends on other programs

                        {"tokens_per_s_rank", static_cast<double>(1000 * s.batch * s.length) / median},
                        {"loss_first", losses.front().item<double>()},
                        {"loss_last", losses.back().item<double>()},
                        {"torch", TORCH_VERSION}};
  if (optimizer) {
    const ZeroOptimizer::Memory memory = optimizer->memory();
    result["state_bytes"] = memory.weights + memory.gradients + memory.master + memory.optimizer;
  }
  if (!device.is_cpu()) {
    const internal::DeviceUse use = internal::device_use(device);
    result["device"] = use.name;
    result["peak_gib"] = static_cast<double>(use.allocated) / (1 << 30);
  }
  if (!a.profile.empty()) {
    constexpr int kTraced = 3;
    if (world.rank() == 0) internal::start_device_trace(device);
    for (int i = 0; i < kTraced; ++i) step();
    if (world.rank() == 0)
      internal::write_file(
          a.profile,
          internal::chrome_trace({.steps = kTraced, .host = {}, .device = internal::stop_device_trace(device)}));
  }
  return result;
}

}  // namespace

int main(int count, char** words) try {
  const Arguments arguments = read(count, words);
  World world = World::connect({});
  configure_threads(world);
  const Mesh mesh(world, select_device(arguments.device == "cuda" ? DeviceRequest::cuda : DeviceRequest::cpu, world));
  const nlohmann::json result = measure(arguments, mesh, world);
  if (world.rank() == 0) std::cout << result.dump() << std::endl;
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());
}
