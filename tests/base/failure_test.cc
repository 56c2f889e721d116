#include "partita/base/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// What torch's allocator on the CPU throws, as seen.
constexpr const char* kTorchAllocation =
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "25769803776 bytes. Error code 12 (Cannot allocate memory)\nException raised from posix_memalign_ at ../c10/core\n"
    "frame #0: c10::ThrowEnforceNotMet(char const*) + 0x4b\n";
// A message of torch as a user's mistake would make it: the stack is part of the first line's end.
constexpr const char* kTorchCheck =
    "shape '[3]' is invalid for input of size 4\nException raised from infer_size at ../aten/src/ATen/InferSize.h:42 "
    "(most recent call first):\nframe #0: c10::Error::Error + 0x94";

std::string text_of(const char* what) { return failure_text(std::runtime_error(what)); }

TEST(FailureText, OfOurErrorsIsTheirOwn) {
  EXPECT_EQ(failure_text(Error("run/a: no such folder")), "run/a: no such folder");
  EXPECT_EQ(failure_text(UsageError("CUDA")), "CUDA");
}

TEST(FailureText, OutOfMemorySaysWhatToLower) {
  EXPECT_THAT(failure_text(std::bad_alloc()), AllOf(StartsWith("out of memory: "), HasSubstr("train.micro_batch")));
  EXPECT_THAT(text_of(kTorchAllocation),
              AllOf(StartsWith("out of memory: "), HasSubstr("asked for 24.0 GiB"), Not(HasSubstr("frame #")),
                    Not(HasSubstr("enforce")), Not(HasSubstr("\n"))));
}

TEST(FailureText, OfLibrariesBeginsWithASentenceOfOurs) {
  EXPECT_THAT(
      text_of("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB"),
      AllOf(StartsWith("the GPU is out of memory: lower train.micro_batch"), HasSubstr("(CUDA out of memory. ")));
  EXPECT_THAT(text_of("CUDA error: no kernel image is available for execution on the device\nfor debugging"),
              AllOf(StartsWith("this build has no code for this GPU"), HasSubstr("9.0"), Not(HasSubstr("debugging"))));
  EXPECT_THAT(text_of("CUDA driver version is insufficient for CUDA runtime version"),
              StartsWith("the NVIDIA driver is too old"));
  EXPECT_THAT(text_of("no CUDA-capable device is detected"), StartsWith("no GPU was found"));
  EXPECT_THAT(text_of("NCCL: unhandled system error"), StartsWith("a collective between GPUs failed"));
  EXPECT_THAT(text_of("could not create a primitive descriptor for a matmul primitive"),
              AllOf(StartsWith("oneDNN"), HasSubstr("precision.compute=fp32")));
  EXPECT_THAT(text_of("could not generate a kernel"), StartsWith("oneDNN"));
  EXPECT_THAT(text_of(kTorchCheck),
              AllOf(StartsWith("an unexpected error in a library; please report it"),
                    HasSubstr("(shape '[3]' is invalid for input of size 4)"), Not(HasSubstr("frame #"))));
}

TEST(FailureText, OfTheStandardLibraryAndJson) {
  EXPECT_THAT(failure_text(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
              AllOf(HasSubstr("another thread"), HasSubstr("ulimit -u")));
  const std::filesystem::filesystem_error file("cannot create directories", "/proc/x",
                                               std::make_error_code(std::errc::permission_denied));
  EXPECT_EQ(failure_text(file), "/proc/x: Permission denied");
  try {
    (void)nlohmann::json::parse("{").get<int>();
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(failure_text(error), StartsWith("a JSON text does not have the expected form ([json.exception"));
  }
  try {
    std::vector<int>().reserve(~size_t{0});
    FAIL();
  } catch (...) {
    EXPECT_THAT(current_failure_text(), StartsWith("a size is larger than any memory"));
  }
}

TEST(FailureText, OfWhatIsNoException) {
  try {
    throw 3;
  } catch (...) {
    EXPECT_THAT(current_failure_text(), StartsWith("an error of an unknown kind"));
  }
}

TEST(FailureText, WholeWhereDebugOutputIsAskedFor) {
  setenv("PARTITA_LOG", "debug", 1);
  EXPECT_THAT(text_of(kTorchCheck), AllOf(StartsWith("an unexpected"), HasSubstr("frame #0")));
  EXPECT_THAT(text_of(kTorchAllocation), AllOf(StartsWith("out of memory"), HasSubstr("frame #0")));
  unsetenv("PARTITA_LOG");
}

TEST(FailureText, OfACallOfCuda) {
  EXPECT_THAT(error_message([] { fail_cuda_call("cudaStreamCreate(&s)", "no kernel image is available"); }),
              AllOf(StartsWith("this build has no code"), HasSubstr("(cudaStreamCreate(&s): no kernel image")));
  EXPECT_THAT(error_message([] { fail_cuda_call("cudaEventQuery(e)", "an illegal memory access was encountered"); }),
              StartsWith("the GPU failed: check nvidia-smi"));
}

TEST(FirstLine, HasNoStackAndNoPlace) {
  EXPECT_EQ(first_line_of(""), "");
  EXPECT_EQ(first_line_of("one.\ntwo"), "one");
  EXPECT_EQ(first_line_of("bad (function at ../a.cpp:3)"), "bad");
  EXPECT_EQ(first_line_of(kTorchAllocation).find("err == 0"), 0U);
}

}  // namespace
}  // namespace partita::internal
