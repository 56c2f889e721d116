# Language, warnings, sanitizers, linker and compiler cache: what every target of the project shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g -fno-omit-frame-pointer")

set(PARTITA_SANITIZE "" CACHE STRING "address, undefined or thread")

add_library(partita_options INTERFACE)
target_include_directories(partita_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(partita_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-missing-field-initializers -fno-math-errno>)
target_compile_definitions(partita_options INTERFACE OMPI_SKIP_MPICXX PARTITA_VERSION="${PROJECT_VERSION}")
if(PARTITA_SANITIZE)
  # Sanitizers' own code hides from GCC what libraries have set.
  target_compile_options(partita_options INTERFACE
    -fsanitize=${PARTITA_SANITIZE} -fno-sanitize-recover=all -Wno-maybe-uninitialized)
  target_link_options(partita_options INTERFACE -fsanitize=${PARTITA_SANITIZE})
endif()

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # gcc's precompiled headers are cached only when ccache may ignore their time stamps and defines.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()
