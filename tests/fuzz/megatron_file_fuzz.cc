// Fuzzes the reader of Megatron-LM's files, with objects of any class: for any bytes, it throws Error or returns
// arguments and tensors. The input is the pickle alone, around which an archive is written.
#include <span>
#include <string>

#include "partita/base/error.h"
#include "partita/interop/megatron_file.h"
#include "tests/interop/zip_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace partita::internal;
  const std::string file =
      test::torch_file_of(std::string(reinterpret_cast<const char*>(data), size), {{"0", std::string(24, 'x')}});
  try {
    const MegatronFile opened(std::as_bytes(std::span(file)), "x");
    (void)opened.arguments();
    (void)opened.number("checkpoint_version");
    if (opened.has("model")) (void)opened.tensors("model");
  } catch (const partita::Error&) {
  }
  return 0;
}
