# Code for NVIDIA GPUs (-DPARTITA_CUDA=ON): needs nvcc, and a PARTITA_TORCH that was installed by pip with its CUDA
# packages, whose nvidia/ folder stands beside it.
option(PARTITA_CUDA "code for NVIDIA GPUs" OFF)
if(NOT PARTITA_CUDA)
  return()
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a)
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
target_compile_definitions(partita_options INTERFACE PARTITA_CUDA)
target_compile_options(partita_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-DFMT_USE_CONSTEXPR=1;-O3>)
include(PartitaCudaLibraries)
