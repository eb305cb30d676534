# Installs the C++ library (component cpp): librushlight and what it links to, headers, a CMake
# package and a pkg-config file; rushlight-run (component cpp_program), which no wheel holds, as a
# program asks for the glibc that it was linked with; and what makes a Python package of a prefix
# (component cpp_python).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(cpp_include ${CMAKE_INSTALL_INCLUDEDIR}/rushlight)
install(TARGETS rushlight LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp
        EXCLUDE_FROM_ALL)
install(TARGETS rushlight-run-installed DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cpp_program
        EXCLUDE_FROM_ALL)
set_target_properties(rushlight-run-installed PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
foreach(layer core math tensor autograd dispatch program api)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${layer}/*.h)
  install(FILES ${headers} DESTINATION ${cpp_include}/${layer} COMPONENT cpp EXCLUDE_FROM_ALL)
endforeach()
# ops.h, and a header for each table of operations.
install(DIRECTORY ${RUSHLIGHT_GENERATED_DIR}/ DESTINATION ${cpp_include} COMPONENT cpp
        EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "ops*.h" PATTERN kernels EXCLUDE PATTERN python EXCLUDE)
# <rushlight/nn.h> is api/nn.h.
foreach(name rushlight nn optim c_api)
  file(WRITE ${PROJECT_BINARY_DIR}/headers/${name}.h "#include \"api/${name}.h\"\n")
  install(FILES ${PROJECT_BINARY_DIR}/headers/${name}.h DESTINATION ${cpp_include} COMPONENT cpp
          EXCLUDE_FROM_ALL)
endforeach()
foreach(name model npy)
  file(WRITE ${PROJECT_BINARY_DIR}/headers/${name}.h "#include \"program/${name}.h\"\n")
  install(FILES ${PROJECT_BINARY_DIR}/headers/${name}.h DESTINATION ${cpp_include} COMPONENT cpp
          EXCLUDE_FROM_ALL)
endforeach()

set(bundled ${PROJECT_BINARY_DIR}/bundled/libscipy_openblas.so)
install(FILES ${bundled} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp EXCLUDE_FROM_ALL)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/rushlight-config.cmake.in
  ${PROJECT_BINARY_DIR}/rushlight-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rushlight
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rushlight-config-version.cmake
                                 VERSION ${version} COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/rushlight.pc.in ${PROJECT_BINARY_DIR}/rushlight.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rushlight-config.cmake
              ${PROJECT_BINARY_DIR}/rushlight-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rushlight COMPONENT cpp EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/rushlight.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT cpp EXCLUDE_FROM_ALL)
configure_file(${CMAKE_CURRENT_LIST_DIR}/rushlight_cpp.py.in
               ${PROJECT_BINARY_DIR}/rushlight_cpp/__init__.py @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rushlight_cpp/__init__.py DESTINATION . COMPONENT cpp_python
        EXCLUDE_FROM_ALL)
