// What a user reads where something fails below this project: one sentence of ours that says what failed and what to
// do, then the first line of what the library said.
//
//   catch (const std::exception& error) { std::fprintf(stderr, "partita: %s\n", failure_text(error).c_str()); }
//
//   failure_text(std::bad_alloc()) == "out of memory: the system gave this process no more; ..."
//
// An Error of ours is its own text. With PARTITA_LOG=debug the library's whole text follows, stack frames included.
#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace partita::internal {

[[nodiscard]] std::string failure_text(const std::exception& error);
// Of the exception that is being handled, whatever its type.
[[nodiscard]] std::string current_failure_text();

// Pure. The sentence for what a library below (c10, oneDNN, CUDA, NCCL) said, by its words; empty: not recognized.
[[nodiscard]] std::string explain_library_text(std::string_view text);
// The first line, without the stack and without "(function at file:line)". Pure.
[[nodiscard]] std::string first_line_of(std::string_view text);

// Throws an Error for a call of the CUDA runtime that failed; error: the runtime's text.
[[noreturn]] void fail_cuda_call(const char* call, const char* error);

}  // namespace partita::internal
