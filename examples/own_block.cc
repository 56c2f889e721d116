// A block of your own inside a Llama: forward and backward are functions of weights that the engine hands in, so that
// it is trained at any ZeRO stage like the built-in layers.
#include <ATen/ATen.h>
#include <partita/partita.h>

using namespace partita;

// y = x + gain * x with a learned gain per channel, which starts at 0.
class Gain final : public Block {
 public:
  Gain(std::string name, int64_t width, DType dtype) : name_(std::move(name)), width_(width), dtype_(dtype) {}

  [[nodiscard]] std::vector<ParameterSpec> parameters() const override {
    return {{.name = name_ + ".gain", .shape = {width_}, .init = {.mean = 0, .std = 0}}};
  }
  // What backward needs of forward, at every level of recomputation: x.
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape& shape) const override {
    return {{"x", {shape.rows(), width_}, dtype_, Recompute::full}};
  }
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape&) const override { return {}; }
  [[nodiscard]] BlockTraits traits() const override { return {.kind = BlockKind::layer}; }

  // The residual stream arrives as sum + branch, not yet added, and leaves so.
  Residual forward(Weights w, Residual in, Context& context, Saved& saved) const override {
    at::Tensor x = saved[0], branch = context.outputs.branch;
    if (in.sum.defined())
      at::add_out(x, in.sum, in.branch);
    else
      x.copy_(in.branch);
    at::mul_out(branch, x, w[0]);
    return {.sum = x, .branch = branch};
  }

  void recompute(Weights, Context&, Saved&) const override {}  // x is always kept

  ResidualGrad backward(Weights w, ResidualGrad d, Context& context, Saved& saved, Grads& grads) const override {
    const Target target = grads.target(0);
    if (target.gradient.defined()) {
      const at::Tensor d_gain = at::sum(d.branch * saved[0], 0, false, at::kFloat);
      target.accumulate ? target.gradient.add_(d_gain) : target.gradient.copy_(d_gain);
    }
    const at::Tensor d_x = d.sum + d.branch * w[0];
    context.outputs.d_sum.copy_(d_x);
    return {.sum = context.outputs.d_sum, .branch = context.outputs.d_sum};
  }

 private:
  std::string name_;
  int64_t width_;
  DType dtype_;
};

int main() {
  World world = World::connect({});
  Mesh mesh(world);
  const ModelConfig model{
      .kind = ModelKind::llama, .layers = 2, .hidden_size = 64, .heads = 4, .vocab_size = 257, .max_length = 32};
  std::vector<std::unique_ptr<Block>> blocks = make_blocks(model, DType::fp32);
  blocks.insert(blocks.end() - 1, std::make_unique<Gain>("last", model.hidden_size, DType::fp32));  // before the head
  Engine engine(std::move(blocks), make_zero(2, mesh.self(), mesh.data()), mesh.data(),
                {.shape = {.samples = 4, .length = 32}, .width = model.hidden_size});
  engine.initialize(1234);
  const at::Tensor ids =
      at::arange(4 * 33, at::kInt).remainder(257).view({4, 33});  // each token is followed by the next
  for (int64_t step = 0; step < 50; ++step) {
    const Batch batch = make_batch(ids);  // the same on every rank here; of real data each rank reads its own
    const StepResult r = engine.step({&batch, 1}, {.step = step, .update = step, .learning_rate = 3e-3, .clip = 1});
    if (world.rank() == 0 && step % 10 == 9) log::info("step {}: loss {:.4f}", step + 1, r.loss);
  }
}
