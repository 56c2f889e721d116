#include "partita/base/trace.h"

#include <gtest/gtest.h>

#include <thread>

namespace partita::internal {
namespace {

TEST(Trace, HoldsTheSpansThatEndedWhileItWasOn) {
  { const TraceSpan before("before"); }
  const int64_t start = trace::now();
  {
    const TraceSpan begun_before("begun before");
    trace::start();
  }
  EXPECT_TRUE(trace::on());
  {
    const TraceSpan outer("outer");
    { const TraceSpan inner("inner", 7); }
    { const TraceSpan inner("inner", 0); }
  }
  std::thread([] { const TraceSpan other("of another thread"); }).join();
  const std::vector<HostSpan> spans = trace::stop();
  EXPECT_FALSE(trace::on());
  { const TraceSpan after("after"); }
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].name, "inner 7");
  EXPECT_EQ(spans[1].name, "inner 0");
  EXPECT_EQ(spans[2].name, "outer");
  EXPECT_EQ(spans[3].name, "of another thread");
  int64_t last = start;
  for (const HostSpan& span : spans) {
    EXPECT_LE(span.begin, span.end) << span.name;
    EXPECT_LE(last, span.end) << span.name;
    last = span.end;
  }
  EXPECT_LE(spans[2].begin, spans[0].begin);
  EXPECT_LE(spans[0].end, spans[1].begin);
  EXPECT_TRUE(trace::stop().empty());
}

TEST(Trace, StartForgetsWhatWasThere) {
  trace::start();
  { const TraceSpan span("first"); }
  trace::start();
  { const TraceSpan span("second"); }
  const std::vector<HostSpan> spans = trace::stop();
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].name, "second");
}

}  // namespace
}  // namespace partita::internal
