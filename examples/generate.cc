// generate PATH PROMPT [TOKENIZER]: text from a run, a checkpoint or a Hugging Face folder, as it is made.
#include <partita/partita.h>

#include <cstdio>

using namespace partita;

int main(int count, char** arguments) try {
  if (count != 3 && count != 4) fail("usage: generate PATH PROMPT [TOKENIZER]");
  World world = World::connect({});
  const Mesh mesh = Mesh::alone(world);
  Generator generator = Generator::open({.path = arguments[1], .base = {}, .tokenizer = count == 4 ? arguments[3] : ""}, mesh);
  generator.generate(arguments[2], {.tokens = 32, .sampling = {.temperature = 0.8F}, .seed = 1},
                     [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); });
  std::puts("");
} catch (const std::exception& error) {
  log::error("{}", error.what());
  return 1;
}
