# partita_layer(NAME [TORCH] [LAYERS ...] [LIBRARIES ...]): the static library partita_NAME from src/partita/NAME and the
# folders in it; what is in folders named cuda is built where PARTITA_CUDA is on.
# TORCH: its sources see torch, and share one precompiled ATen/core/Tensor.h (15 s once, then 4 s less a file).

file(WRITE ${CMAKE_BINARY_DIR}/pch.cc.in "")
configure_file(${CMAKE_BINARY_DIR}/pch.cc.in ${CMAKE_BINARY_DIR}/pch.cc COPYONLY)
add_library(partita_pch STATIC ${CMAKE_BINARY_DIR}/pch.cc)
target_link_libraries(partita_pch PUBLIC partita_options partita_torch)
target_precompile_headers(partita_pch PRIVATE <ATen/core/Tensor.h>)

# Hidden in one place: what a target needs to use torch and its precompiled header.
function(partita_use_torch TARGET)
  target_link_libraries(${TARGET} PUBLIC partita_torch)
  target_precompile_headers(${TARGET} REUSE_FROM partita_pch)
endfunction()

set(PARTITA_LAYERS "" CACHE INTERNAL "")

function(partita_layer NAME)
  cmake_parse_arguments(ARG "TORCH" "" "LAYERS;LIBRARIES" ${ARGN})
  set(FOLDER ${CMAKE_SOURCE_DIR}/src/partita/${NAME})
  file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS RELATIVE ${FOLDER} ${FOLDER}/*.cc ${FOLDER}/*.cu)
  if(NOT PARTITA_CUDA)
    list(FILTER SOURCES EXCLUDE REGEX "(^|/)cuda/")
  endif()
  list(TRANSFORM SOURCES PREPEND ${FOLDER}/)
  add_library(partita_${NAME} STATIC ${SOURCES})
  set(PARTITA_LAYERS ${PARTITA_LAYERS} ${NAME} CACHE INTERNAL "")
  target_link_libraries(partita_${NAME} PUBLIC partita_options ${ARG_LIBRARIES})
  foreach(LAYER ${ARG_LAYERS})
    target_link_libraries(partita_${NAME} PUBLIC partita_${LAYER})
  endforeach()
  if(ARG_TORCH)
    partita_use_torch(partita_${NAME})
  endif()
endfunction()
