# `cmake --install build --prefix FOLDER`: the program, headers, all layers as one archive, and find_package(Partita).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

foreach(LAYER ${PARTITA_LAYERS})
  list(APPEND OBJECTS $<TARGET_OBJECTS:partita_${LAYER}>)
endforeach()
add_library(partita_archive STATIC ${OBJECTS})
set_target_properties(partita_archive PROPERTIES OUTPUT_NAME partita LINKER_LANGUAGE CXX)
target_link_libraries(partita_archive PUBLIC partita_options)

set_target_properties(partita PROPERTIES INSTALL_RPATH "${CMAKE_BUILD_RPATH}")
install(TARGETS partita RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS partita_archive ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY src/partita DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE)

set(PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/Partita)
configure_package_config_file(cmake/PartitaConfig.cmake.in ${CMAKE_BINARY_DIR}/PartitaConfig.cmake
                              INSTALL_DESTINATION ${PACKAGE} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/PartitaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/PartitaConfig.cmake ${CMAKE_BINARY_DIR}/PartitaConfigVersion.cmake
              cmake/PartitaTorch.cmake cmake/PartitaCudaLibraries.cmake DESTINATION ${PACKAGE})
