#include "partita/base/failure.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/free_memory.h"

namespace partita::internal {
namespace {

constexpr std::string_view kOutOfMemory =
    "out of memory: the system gave this process no more{}; use a smaller model, lower train.micro_batch or "
    "train.sequence_length (--micro-batch, --sequence-length), set memory.recompute=full or parallel.zero_stage=3, or "
    "raise the limit (ulimit -v, the control group)";
constexpr std::string_view kNoThread =
    "the system refused to start another thread: lower train.threads, OMP_NUM_THREADS or the number of ranks, or raise "
    "the limits (ulimit -u, ulimit -v)";
constexpr std::string_view kReport = "; please report it, with the output of PARTITA_LOG=debug";

constexpr std::string_view kOneDnn =
    "oneDNN, the library of the CPU kernels, failed: this processor may lack the instructions for this precision; use "
    "precision.compute=fp32 (--precision fp32)";

struct Sentence {
  std::string_view words, sentence;
};

// The first entry whose words occur in the text applies.
constexpr std::array<Sentence, 20> kSentences = {{
    {"CUDA out of memory",
     "the GPU is out of memory: lower train.micro_batch or train.sequence_length, set memory.recompute=full, "
     "parallel.zero_stage=3 or memory.optimizer=host, or end other programs that use the GPU"},
    {"out of memory", "the GPU or the host is out of memory: lower train.micro_batch, or set memory.recompute=full"},
    {"no kernel image",
     "this build has no code for this GPU: NVIDIA GPUs of compute capability 9.0 (H100, H200) are supported; use "
     "train.device=cpu (--device cpu)"},
    {"driver version is insufficient",
     "the NVIDIA driver is too old for the CUDA version of this build: update the driver, or use train.device=cpu "
     "(--device cpu)"},
    {"no CUDA-capable device",
     "no GPU was found: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use train.device=cpu (--device cpu)"},
    {"invalid device ordinal",
     "there are fewer GPUs than asked for: check nvidia-smi and CUDA_VISIBLE_DEVICES, or start fewer ranks"},
    {"all CUDA-capable devices are busy",
     "every GPU is in use by another process (exclusive compute mode): end it, or choose another GPU by "
     "CUDA_VISIBLE_DEVICES"},
    {"uncorrectable ECC error", "the GPU reported a memory error: check nvidia-smi -q, and reset or replace the GPU"},
    {"NVML", "the NVIDIA driver could not be used: check nvidia-smi"},
    {"NCCL", "a collective between GPUs failed: check the network and GPUs of all ranks, NCCL_DEBUG=INFO says more"},
    {"CUDA", "the GPU failed: check nvidia-smi and the kernel log (dmesg)"},
    {"cuBLAS", "a matrix product on the GPU failed: check nvidia-smi and the free memory of the GPU"},
    {"CUBLAS", "a matrix product on the GPU failed: check nvidia-smi and the free memory of the GPU"},
    {"cuDNN", "attention on the GPU failed: check the versions of driver and cuDNN, and the free memory of the GPU"},
    {"CUDNN", "attention on the GPU failed: check the versions of driver and cuDNN, and the free memory of the GPU"},
    // oneDNN's messages do not mention oneDNN: "could not create a primitive descriptor", "could not generate a
    // kernel".
    {"could not create a", kOneDnn},
    {"could not execute a", kOneDnn},
    {"could not generate a", kOneDnn},
    {"Resource temporarily unavailable", kNoThread},
    {"[enforce fail at", "torch, the library below, failed"},
}};

bool wants_all() {
  const char* level = std::getenv("PARTITA_LOG");
  return level != nullptr && std::string_view(level) == "debug";
}

// "sentence (library text)"; the full text if requested.
std::string with_text(std::string_view sentence, std::string_view text) {
  std::string out(sentence);
  if (const std::string line = first_line_of(text); !line.empty()) out += " (" + line + ")";
  if (wants_all()) out += "\n" + std::string(text);
  return out;
}

// ", which asked for 1.2 GiB", from torch's "you tried to allocate 1288490188 bytes".
std::string asked_for(std::string_view text) {
  constexpr std::string_view kWords = "you tried to allocate ";
  const size_t at = text.find(kWords);
  if (at == std::string_view::npos) return {};
  const char* begin = text.data() + at + kWords.size();
  uint64_t bytes = 0;
  if (std::from_chars(begin, text.data() + text.size(), bytes).ec != std::errc()) return {};
  return bytes > INT64_MAX ? std::string() : ", which asked for " + human_bytes(static_cast<int64_t>(bytes));
}

bool is_out_of_host_memory(std::string_view text) {
  return text.find("can't allocate memory") != std::string_view::npos ||
         text.find("std::bad_alloc") != std::string_view::npos ||
         text.find("Cannot allocate memory") != std::string_view::npos;
}

std::string out_of_memory(std::string_view text) {
  std::string sentence(kOutOfMemory);
  sentence.replace(sentence.find("{}"), 2, asked_for(text));
  return sentence;
}

std::string of_file_system(const std::filesystem::filesystem_error& error) {
  const std::string path = error.path1().string(), other = error.path2().string();
  return fmt::format("{}{}: {}", path.empty() ? "a file" : path, other.empty() ? "" : " and " + other,
                     error.code().message());
}

constexpr int64_t kLeastFree = int64_t{64} << 20;

std::string of_library(std::string_view text) {
  const std::string sentence = explain_library_text(text);
  // A failed allocation is not always reported as such: oneDNN "could not execute a primitive".
  if (sentence == kOneDnn && free_for_process(memory_limits(), 1).bytes < kLeastFree)
    return with_text(out_of_memory(""), text);
  if (sentence.empty()) return with_text("an unexpected error in a library" + std::string(kReport), text);
  return is_out_of_host_memory(text) ? (wants_all() ? sentence + "\n" + std::string(text) : sentence)
                                     : with_text(sentence, text);
}

}  // namespace

std::string first_line_of(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  if (const size_t stack = text.find("Exception raised from"); stack != std::string_view::npos)
    text = text.substr(0, stack);
  if (const size_t place = text.find(" (function at "); place != std::string_view::npos) text = text.substr(0, place);
  // "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: ..." begins with a library's source location.
  if (text.starts_with("[enforce fail at "))
    if (const size_t end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  while (!text.empty() && (text.back() == ' ' || text.back() == '.' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text);
}

std::string explain_library_text(std::string_view text) {
  if (is_out_of_host_memory(text)) return out_of_memory(text);
  for (const auto& [words, sentence] : kSentences)
    if (text.find(words) != std::string_view::npos) return std::string(sentence);
  return {};
}

std::string failure_text(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return out_of_memory("");
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) return of_file_system(*file);
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    if (system->code() == std::errc::resource_unavailable_try_again) return std::string(kNoThread);
    return with_text("the operating system refused a request of this program", system->what());
  }
  if (dynamic_cast<const nlohmann::json::exception*>(&error) != nullptr)
    return with_text("a JSON text does not have the expected form", error.what());
  if (dynamic_cast<const std::length_error*>(&error) != nullptr)
    return with_text("a size is larger than any memory: check the sizes in the configuration and the files read",
                     error.what());
  return of_library(error.what());
}

std::string current_failure_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return failure_text(error);
  } catch (...) {
    return "an error of an unknown kind" + std::string(kReport);
  }
}

void fail_cuda_call(const char* call, const char* error) {
  std::string sentence = explain_library_text(error);
  if (sentence.empty()) sentence = explain_library_text("CUDA");
  fail("{} ({}: {})", sentence, call, error);
}

}  // namespace partita::internal
