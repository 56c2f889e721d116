// Records what each thread does, for a timeline of a few steps. When off, a span only checks a flag.
//
//   trace::start();
//   {
//     const TraceSpan span("forward block", b);
//     ...
//   }
//   std::vector<HostSpan> spans = trace::stop();
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace partita::internal {

struct HostSpan {
  std::string name;
  int64_t begin = 0, end = 0;  // nanoseconds of trace::now()
};

namespace trace {

[[nodiscard]] bool on();
[[nodiscard]] int64_t now();  // of a monotonic clock
void start();
// Spans that ended since start(), ordered by end.
[[nodiscard]] std::vector<HostSpan> stop();

}  // namespace trace

class TraceSpan {
 public:
  // `index` is appended to the name; below 0: none. The name must outlive the span.
  explicit TraceSpan(const char* name, int64_t index = -1)
      : name_(name), index_(index), begin_(trace::on() ? trace::now() : kOff) {}
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (begin_ != kOff) end();
  }

 private:
  static constexpr int64_t kOff = -1;
  void end() const;

  const char* name_;
  int64_t index_, begin_;
};

}  // namespace partita::internal
