#include "partita/config/list_text.h"

#include <gmock/gmock.h>

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

TEST(ListText, TakesBracketsCommasAndSpaces) {
  for (const char* text :
       {"[2,3]", "[2, 3]", " [ 2 , 3 ] ", "[2, 3,]", "[2 3]", "2,3", "2, 3", "2 3", "\t2\n3", "['2',\"3\"]"})
    EXPECT_THAT(read_list(std::string_view(text)), Optional(ElementsAre("2", "3"))) << text;
  for (const char* text : {"", " ", "[]", "[ ]"})
    EXPECT_THAT(read_list(std::string_view(text)), Optional(IsEmpty())) << text;
  EXPECT_THAT(read_list(std::string_view("[4]")), Optional(ElementsAre("4")));
  EXPECT_THAT(read_list(std::string_view("-1 x=y it's")), Optional(ElementsAre("-1", "x=y", "it's")));
}

TEST(ListText, KeepsWhatIsInQuotes) {
  EXPECT_THAT(read_list(std::string_view(R"([0.7, "my data/a", 0.3, 'b, [c]'])")),
              Optional(ElementsAre("0.7", "my data/a", "0.3", "b, [c]")));
  EXPECT_THAT(read_list(std::string_view(R"("" "a\"b\\" 'c\')")), Optional(ElementsAre("", "a\"b\\", "c\\")));
}

TEST(ListText, RefusesWhatIsNotComplete) {
  for (const char* text :
       {"[", "]", "[2", "2]", ",", "2,", ",2", "[,2]", "2,,3", "[2,,]", "\"2", "'2, 3", "\"2\"3", "[2] 3"})
    EXPECT_EQ(read_list(std::string_view(text)), std::nullopt) << text;
}

TEST(ListText, TakesWordsOfAShell) {
  using Words = std::vector<std::string>;
  EXPECT_THAT(read_list(Words{"0.7", "my data/a", "", " b,c"}), Optional(ElementsAre("0.7", "my data/a", "", " b,c")));
  EXPECT_THAT(read_list(Words{"[2,", "3]"}), Optional(ElementsAre("2", "3")));
  EXPECT_THAT(read_list(Words{"2", ",", "3"}), Optional(ElementsAre("2", "3")));
  EXPECT_THAT(read_list(Words{"[2,3]"}), Optional(ElementsAre("2", "3")));
  EXPECT_EQ(read_list(Words{"[2,", "3"}), std::nullopt);
}

}  // namespace
}  // namespace partita::internal
