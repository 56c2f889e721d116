# partita_suites(TARGET PREFIX [ALONE REGEX] [PROPERTIES ...]): one ctest test "PREFIX.SUITE" for each suite of a
# GoogleTest program, asked from the program when ctest starts. Not one for each test, as gtest_discover_tests makes
# them: every start of a program with torch takes half a second, and what a suite sets up is set up once.
# ALONE: suites whose names match run beside no others under `ctest --parallel 2`.
set(PARTITA_ADD_SUITES ${CMAKE_CURRENT_LIST_DIR}/AddSuites.cmake)

function(partita_suites TARGET PREFIX)
  cmake_parse_arguments(ARG "" "ALONE" "PROPERTIES" ${ARGN})
  set(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_suites.cmake)
  file(GENERATE OUTPUT ${SCRIPT} CONTENT "set(PROGRAM [[$<TARGET_FILE:${TARGET}>]])
set(PREFIX [[${PREFIX}]])
set(ALONE [[${ARG_ALONE}]])
set(SUITE_PROPERTIES [[${ARG_PROPERTIES}]])
include([[${PARTITA_ADD_SUITES}]])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${SCRIPT})
endfunction()
