# Run by ctest (PartitaSuites.cmake): adds the suites of PROGRAM.
if(NOT EXISTS ${PROGRAM})
  add_test(${PREFIX}.NotBuilt ${PROGRAM})
  return()
endif()

# The program's answer is kept until the program is a newer one.
set(LISTED ${PROGRAM}.suites)
if(NOT EXISTS ${LISTED} OR ${PROGRAM} IS_NEWER_THAN ${LISTED})
  execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_FILE ${LISTED} RESULT_VARIABLE RESULT)
  if(NOT RESULT EQUAL 0)
    file(REMOVE ${LISTED})
    message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: exit code ${RESULT}")
  endif()
endif()

file(STRINGS ${LISTED} LINES REGEX "^[^ ]+\\.")  # "SUITE." or "SUITE.  # TypeParam = ..."; its tests are indented
foreach(LINE IN LISTS LINES)
  string(REGEX REPLACE "\\..*" "" SUITE "${LINE}")
  add_test(${PREFIX}.${SUITE} ${PROGRAM} --gtest_filter=${SUITE}.*)
  set(PROCESSORS 1)
  if(ALONE AND SUITE MATCHES "^(${ALONE})$")
    set(PROCESSORS 2)
  endif()
  set_tests_properties(${PREFIX}.${SUITE} PROPERTIES PROCESSORS ${PROCESSORS} ${SUITE_PROPERTIES})
endforeach()
