# OpenBLAS with LAPACK from the pip package scipy-openblas32 (a build requirement). Its symbols carry
# the prefix scipy_, so they cannot meet those of another BLAS in the process; it needs libc and libm
# alone. Target rushlight::openblas; rushlight_install_openblas(DESTINATION) bundles the library.
include(${CMAKE_CURRENT_LIST_DIR}/BundledLibrary.cmake)

set(RUSHLIGHT_OPENBLAS "" CACHE PATH
    "The folder scipy_openblas32 of an unpacked wheel, where the build is for another machine")
if(RUSHLIGHT_OPENBLAS)
  set(openblas_header ${RUSHLIGHT_OPENBLAS}/include/cblas.h)
  set(openblas_library ${RUSHLIGHT_OPENBLAS}/lib/libscipy_openblas.so)
else()
  rushlight_package_file(scipy-openblas32 include/cblas.h openblas_header)
  rushlight_package_file(scipy-openblas32 lib/libscipy_openblas.so openblas_library)
endif()
cmake_path(GET openblas_header PARENT_PATH openblas_include)
rushlight_import_library(openblas ${openblas_library} ${openblas_include})
set(RUSHLIGHT_OPENBLAS_LIBRARY ${openblas_library})

function(rushlight_install_openblas destination)
  rushlight_install_library(openblas ${RUSHLIGHT_OPENBLAS_LIBRARY} libscipy_openblas.so ${destination})
endfunction()
