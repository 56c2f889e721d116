# partita_torch: libtorch from the pip wheel in PARTITA_TORCH, linked directly, because its own CMake package demands a
# CUDA toolkit. Included by the project itself and, installed, by find_package(Partita).
if(NOT EXISTS "${PARTITA_TORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "PARTITA_TORCH=${PARTITA_TORCH} holds no lib/libtorch_cpu.so. Pass "
                      "-DPARTITA_TORCH=FOLDER where FOLDER holds torch's include/ and lib/ (in Partita's own folder "
                      "'make setup' installs it).")
endif()

# Headers and kernels that we call are of this version.
set(EXPECTED_TORCH 2.11)
set(VERSION_HEADER ${PARTITA_TORCH}/include/torch/headeronly/version.h)
set(VERSION_TEXT "")
if(EXISTS ${VERSION_HEADER})
  file(READ ${VERSION_HEADER} VERSION_TEXT)
endif()
string(REGEX MATCH "#define TORCH_VERSION_MAJOR ([0-9]+)" IGNORED "${VERSION_TEXT}")
set(FOUND_TORCH "${CMAKE_MATCH_1}")
string(REGEX MATCH "#define TORCH_VERSION_MINOR ([0-9]+)" IGNORED "${VERSION_TEXT}")
set(FOUND_TORCH "${FOUND_TORCH}.${CMAKE_MATCH_1}")
if(NOT FOUND_TORCH STREQUAL EXPECTED_TORCH)
  message(FATAL_ERROR "PARTITA_TORCH=${PARTITA_TORCH} is torch ${FOUND_TORCH}, expected ${EXPECTED_TORCH}. Run 'make "
                      "setup' with PARTITA_TORCH unset, or name the folder of a torch ${EXPECTED_TORCH}.")
endif()

# The wheel brings headers of its own fmt. Those of the system's, which we link, must be found first.
find_path(FMT_FOLDER fmt/format.h REQUIRED)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/partita_include)
file(CREATE_LINK ${FMT_FOLDER}/fmt ${CMAKE_BINARY_DIR}/partita_include/fmt SYMBOLIC)

add_library(partita_torch INTERFACE)
target_include_directories(partita_torch SYSTEM BEFORE INTERFACE ${CMAKE_BINARY_DIR}/partita_include)
target_include_directories(partita_torch SYSTEM INTERFACE
  ${PARTITA_TORCH}/include ${PARTITA_TORCH}/include/torch/csrc/api/include)
# torch's libgomp comes first, so that a process has one OpenMP runtime and one pool of threads.
target_compile_options(partita_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_directories(partita_torch INTERFACE ${PARTITA_TORCH}/lib)
target_link_libraries(partita_torch INTERFACE ${PARTITA_TORCH}/lib/libtorch_cpu.so ${PARTITA_TORCH}/lib/libc10.so
                      ${PARTITA_TORCH}/lib/libgomp.so.1)
list(APPEND CMAKE_BUILD_RPATH ${PARTITA_TORCH}/lib)
