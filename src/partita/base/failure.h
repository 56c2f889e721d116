// Error messages for failures in underlying libraries: one sentence that says what failed and what to do, then the
// first line of the library's own message.
//
//   catch (const std::exception& error) { std::fprintf(stderr, "partita: %s\n", failure_text(error).c_str()); }
//
//   failure_text(std::bad_alloc()) == "out of memory: the system gave this process no more; ..."
//
// An Error keeps its own text. With PARTITA_LOG=debug the library's full text follows, including stack frames.
#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace partita::internal {

[[nodiscard]] std::string failure_text(const std::exception& error);
// For the exception being handled, whatever its type.
[[nodiscard]] std::string current_failure_text();

// Pure. Our sentence for a message of an underlying library (c10, oneDNN, CUDA, NCCL), found by keywords; empty:
// unknown.
[[nodiscard]] std::string explain_library_text(std::string_view text);
// The first line, without stack and without "(function at file:line)". Pure.
[[nodiscard]] std::string first_line_of(std::string_view text);

// Throws an Error for a failed CUDA runtime call; error: the runtime's text.
[[noreturn]] void fail_cuda_call(const char* call, const char* error);

}  // namespace partita::internal
