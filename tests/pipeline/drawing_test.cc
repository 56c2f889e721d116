#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "partita/pipeline/timeline_svg.h"
#include "partita/pipeline/timeline_text.h"
#include "tests/pipeline/cases.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;
using testing::Not;

Timeline timeline_of(const PipelineShape& shape, const StageTimes& times) {
  return simulate(pipeline_actions(shape), StagePlacement(shape), {.stages = {times}});
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(TimelineText, OneChunk) {
  EXPECT_EQ(
      timeline_text(timeline_of({PipelineSchedule::one_f_one_b, 2, 1, 3}, {1, 1, 1}), {.chunks = 1, .unit = "s"}).text,
      "rank 0  F0 F1 ......B0--- F2 B1--- ...B2--- \n"
      "rank 1  ...F0 B0--- F1 B1--- F2 B2--- ......\n"
      "        0                               12 s\n");
}

TEST(TimelineText, TwoChunksAndPairs) {
  EXPECT_EQ(timeline_text(timeline_of({PipelineSchedule::dual_pipe_v, 1, 2, 2}, {1, 1, 1}), {.chunks = 2}).text,
            "rank 0  F0 f0 F1 b0--- f1B0---- b1--- I1 W1 \n"
            "        0                                 12\n");
}

TEST(TimelineText, MoreChunks) {
  EXPECT_EQ(timeline_text(timeline_of({PipelineSchedule::interleaved, 1, 3, 1}, {1, .5, .5}), {.chunks = 3}).text,
            "rank 0  0F0 1F0 2F0 2B0 1B0 0B0 \n"
            "        0                      6\n");
}

TEST(TimelineText, GivenColumns) {
  const Timeline timeline = timeline_of({PipelineSchedule::one_f_one_b, 2, 1, 3}, {1, 1, 1});
  EXPECT_EQ(timeline_text(timeline, {.columns = 24}).text,
            "rank 0  F0F1....B0- F2B1- ..B2- \n"
            "rank 1  ..F0B0- F1B1- F2B2- ....\n"
            "        0                     12\n");
  EXPECT_EQ(timeline_text(timeline, {.columns = 12}).text,
            "rank 0  FF..B0FB1.B2\n"
            "rank 1  .FB0FB1FB2..\n"
            "        0         12\n");
}

TEST(TimelineText, ShowsBothEndsOfWhatIsTooWide) {
  const Timeline timeline = timeline_of({PipelineSchedule::one_f_one_b, 2, 1, 3}, {1, 1, 1});  // 36 columns
  const TimelineText cut = timeline_text(timeline, {.most_columns = 20, .unit = "s"});
  EXPECT_EQ(cut.text,
            "rank 0  F0 F1 .. // ..B2--- \n"
            "rank 1  ...F0 B0 // - ......\n"
            "        0               12 s\n");
  EXPECT_FALSE(cut.whole);
  const TimelineText whole = timeline_text(timeline, {.most_columns = 36});
  EXPECT_EQ(whole.text, timeline_text(timeline, {}).text);
  EXPECT_TRUE(whole.whole);
}

TEST(WaitingText, NamesWhoWaitsMost) {
  EXPECT_EQ(waiting_text({.ranks = {}, .busy = {6, 9, 8}, .makespan = 10, .bubble = .1}),
            "rank 0 waits longest, 40.0% of the time; rank 1 10.0%, the least");
  EXPECT_EQ(waiting_text({.ranks = {}, .busy = {9, 9}, .makespan = 12, .bubble = .25}),
            "every rank waits 25.0% of the time");
  EXPECT_EQ(waiting_text({.ranks = {}, .busy = {0}, .makespan = 0, .bubble = 0}), "no rank waits");
}

// Where times are not multiples of a column: rows are equally long, and every label is there, apart from the next.
TEST(TimelineText, AnyTimes) {
  for (const PipelineShape& shape :
       {PipelineShape{PipelineSchedule::zbv, 3, 2, 12}, {PipelineSchedule::interleaved, 11, 3, 13}}) {
    const Timeline timeline = timeline_of(shape, {.37, .51, .29});
    std::istringstream text(timeline_text(timeline, {.chunks = shape.chunks}).text);
    std::set<size_t> lengths;
    for (const auto& spans : timeline.ranks) {
      std::string row;
      ASSERT_TRUE(std::getline(text, row));
      lengths.insert(row.size());
      row = std::regex_replace(row.substr(shape.ranks > 10 ? 9 : 8), std::regex("[-.]"), " ");
      std::istringstream words(row);
      for (const Timeline::Span& span : spans) {
        std::string word;
        words >> word;
        ASSERT_EQ(word, action_label(span.action, shape.chunks));
      }
    }
    EXPECT_EQ(lengths.size(), 1U);
  }
}

TEST(TimelineText, NoTime) {
  EXPECT_EQ(timeline_text(timeline_of({PipelineSchedule::one_f_one_b, 1, 1, 1}, {0, 0, 0}), {}).text,
            "rank 0  \n"
            "        0 0\n");
}

// Tags are closed in the order in which they were opened.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)[^<>]*?(/?)>");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), tag); it != std::sregex_iterator(); ++it) {
    if ((*it)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), (*it)[2].str());
      open.pop_back();
    } else if ((*it)[3].length() == 0) {
      open.push_back((*it)[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(count(std::regex_replace(svg, tag, ""), "<"), 0);
}

TEST(TimelineSvg, ActionsOfASmallPipeline) {
  const Timeline timeline = timeline_of({PipelineSchedule::one_f_one_b, 2, 1, 3}, {1, 1, 1});
  const std::string svg = timeline_svg(timeline, 1, {.width = 600, .title = "a < b & c"});
  expect_well_formed(svg);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"676\" height=\"148\""));
  // Six forwards and six backwards, two colors of the legend; two rows; the axis and its ticks at 0 to 12.
  EXPECT_EQ(count(svg, "fill=\"#2e62b0\""), 6 + 1);
  EXPECT_EQ(count(svg, "fill=\"#1f8060\""), 6 + 1);
  EXPECT_EQ(count(svg, "<rect"), 12 + 2 + 2 + 1 + 13);
  // Rank 1's first forward: from time 1 to 2, at 50 pixels each.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"110.00\" y=\"90.0\" width=\"49.50\" height=\"26.0\" fill=\"#2e62b0\"/>"));
  for (const char* text :
       {">rank 0<", ">rank 1<", ">forward<", ">backward<", ">bubble 25.0%<", ">12<", ">a &lt; b &amp; c<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr("weight gradient")));
}

TEST(TimelineSvg, ChunksAreShades) {
  const std::string svg = timeline_svg(timeline_of({PipelineSchedule::interleaved, 2, 3, 2}, {1, 1, 1}), 3);
  expect_well_formed(svg);
  for (const char* shade : {"#2e62b0", "#6289c4", "#97b1d8"}) EXPECT_EQ(count(svg, shade), 4 + 1) << shade;
  EXPECT_THAT(svg, HasSubstr("lighter: later stages of the rank"));
}

TEST(TimelineSvg, PairsAreAboveEachOther) {
  const std::string svg =
      timeline_svg(timeline_of({PipelineSchedule::dual_pipe_v, 1, 2, 2}, {1, 1, 1}), 2, {.width = 600});
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("<rect x=\"310.00\" y=\"34.0\" width=\"149.50\" height=\"13.0\" fill=\"#97b1d8\"/>"));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"310.00\" y=\"47.0\" width=\"149.50\" height=\"13.0\" fill=\"#1f8060\"/>"));
}

TEST(TimelineSvg, NumbersOnlyWhereThereIsRoom) {
  const Timeline timeline = timeline_of({PipelineSchedule::one_f_one_b, 1, 1, 200}, {1, 1, 1});
  const std::string wide = timeline_svg(timeline, 1, {.width = 20000}),
                    narrow = timeline_svg(timeline, 1, {.width = 600});
  EXPECT_EQ(count(wide, ">137<"), 2);
  EXPECT_EQ(count(narrow, ">137<"), 0);
  EXPECT_THAT(timeline_svg(timeline, 1), HasSubstr("width=\"3076\""));
  EXPECT_THAT(timeline_svg(timeline_of({PipelineSchedule::one_f_one_b, 1, 1, 2}, {1, 1, 1}), 1),
              HasSubstr("width=\"676\""));
}

TEST(TimelineSvg, NoTime) {
  expect_well_formed(timeline_svg(timeline_of({PipelineSchedule::one_f_one_b, 1, 1, 1}, {0, 0, 0}), 1));
}

}  // namespace
}  // namespace partita::internal
