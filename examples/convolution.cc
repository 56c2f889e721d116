// convolution RUN [STEPS [STAGE]]: a convolutional net with batch norm as a whole run, with torch::data and a hook.
#include <partita/partita.h>
#include <torch/torch.h>

#include <cmath>

using namespace partita;
namespace nn = torch::nn;

constexpr int64_t kImages = 1200, kSide = 12, kClasses = 4, kGlobalBatch = 48;

// Images of stripes in one of four directions, with noise.
struct Stripes : torch::data::datasets::Dataset<Stripes> {
  explicit Stripes(int64_t first) : first_(first) {}
  torch::data::Example<> get(size_t index) override {
    const int64_t number = first_ + static_cast<int64_t>(index), kind = number % kClasses;
    const double angle = M_PI * static_cast<double>(kind) / kClasses, phase = static_cast<double>(number % 17);
    const torch::Tensor place = torch::arange(kSide, torch::kFloat);
    const torch::Tensor across = place.unsqueeze(1) * std::sin(angle) + place * std::cos(angle);
    torch::Generator noise = torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(number));
    return {(torch::sin(1.2 * across + phase) + 0.5 * torch::randn({kSide, kSide}, noise)).unsqueeze(0),
            torch::tensor(kind)};
  }
  torch::optional<size_t> size() const override { return kImages; }

 private:
  int64_t first_;
};

struct NetImpl : nn::Module {
  NetImpl() { register_module("layers", layers); }
  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images); }
  nn::Sequential layers{nn::Conv2d(nn::Conv2dOptions(1, 12, 3).padding(1)),
                        nn::BatchNorm2d(12),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Conv2d(nn::Conv2dOptions(12, 24, 3).padding(1)),
                        nn::BatchNorm2d(24),
                        nn::ReLU(),
                        nn::AdaptiveAvgPool2d(1),
                        nn::Flatten(),
                        nn::Dropout(0.1),
                        nn::Linear(24, kClasses)};
};
TORCH_MODULE(Net);

// Runs on every rank, next to the built-in hooks of rank 0 (log lines, metrics.jsonl, TensorBoard).
class StopWhenGood final : public Hook {
 public:
  [[nodiscard]] int priority() const override { return 50; }
  void after_eval(TrainerView& view) override {
    if (view.eval.loss < 0.02) view.stop_reason = "a validation loss below 0.02";
  }
};

int main(int count, char** arguments) try {
  if (count < 2) fail("usage: convolution RUN [STEPS [STAGE]]");
  World world = World::connect({});
  configure_threads(world);
  Mesh mesh(world, select_device(DeviceRequest::automatic, world));
  torch::manual_seed(7);
  Net net;
  net->to(mesh.device());
  ZeroOptimizer optimizer(named(*net), mesh, {.stage = count > 3 ? std::stoi(arguments[3]) : 1});
  Hooks mine;
  mine.add(std::make_unique<StopWhenGood>());
  ModuleTrainer trainer(optimizer, untrained(*net), mesh,
                        {.run = {.directory = arguments[1]},
                         .steps = count > 2 ? std::stoll(arguments[2]) : 100,
                         .global_batch = kGlobalBatch,
                         .schedule = {.kind = ScheduleKind::cosine, .max = 5e-3, .min = 5e-4, .warmup = 10},
                         .evaluate_every = 25,
                         .checkpoint = {.every = 25}},
                        std::move(mine));

  // The samples of this rank, from where the run begins; the loader's threads read ahead.
  const ShuffledSamples order({.samples = kImages,
                               .rank = mesh.data().rank(),
                               .ranks = mesh.data().size(),
                               .first = trainer.start().consumed_samples});
  const auto loader = torch::data::make_data_loader(
      Stripes(0).map(torch::data::transforms::Stack<>()), order,
      torch::data::DataLoaderOptions(static_cast<size_t>(kGlobalBatch / mesh.data().size())).workers(1));
  auto batch = loader->begin();
  const torch::data::Example<> test = [] {
    Stripes others(kImages);
    std::vector<torch::data::Example<>> examples;
    for (size_t i = 0; i < 100; ++i) examples.push_back(others.get(i));
    return torch::data::transforms::Stack<>().apply_batch(std::move(examples));
  }();

  const auto loss_of = [&](const torch::data::Example<>& examples) {
    return nn::functional::cross_entropy(net->forward(examples.data.to(mesh.device())),
                                         examples.target.to(mesh.device()));
  };
  const TrainOutcome outcome = trainer.run(
      [&](const MicroBatch&) {
        const torch::Tensor loss = loss_of(*batch);
        ++batch;
        return loss;
      },
      [&] {
        net->eval();  // batch norm by its running statistics, no dropout
        const double loss = loss_of(test).item<double>();
        net->train();
        return loss;
      });
  return outcome.interrupted ? 75 : 0;
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());
}
