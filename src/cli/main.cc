// The program `partita`: subcommands, errors and exit codes (0 done, 1 error, 2 wrong usage).
#include <cstdio>
#include <exception>

#include "cli/commands.h"
#include "partita/base/error.h"

int main(int argc, char** argv) {
  CLI::App app{"Trains GPT and Llama models from raw text on any number of CPUs and GPUs."};
  app.set_version_flag("--version", "partita " PARTITA_VERSION);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const partita::UsageError& error) {
    std::fprintf(stderr, "partita: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "partita: %s\n", error.what());
    return 1;
  }
}
