# oneDNN 3.2 from the pip packages onednn-cpu-gomp and onednn-devel-cpu-gomp (build requirements).
# Target rushlight::dnnl; rushlight_install_dnnl(DESTINATION) bundles the library, and the GNU OpenMP
# run-time it shares with this module, into the package.
include(${CMAKE_CURRENT_LIST_DIR}/BundledLibrary.cmake)

rushlight_package_file(onednn-devel-cpu-gomp include/oneapi/dnnl/dnnl.h dnnl_header)
rushlight_package_file(onednn-cpu-gomp /libdnnl.so.3 dnnl_library)
cmake_path(SET dnnl_include NORMALIZE ${dnnl_header}/../../..)
rushlight_import_library(dnnl ${dnnl_library} ${dnnl_include})
set(RUSHLIGHT_DNNL_LIBRARY ${dnnl_library})

function(rushlight_install_dnnl destination)
  rushlight_install_library(dnnl ${RUSHLIGHT_DNNL_LIBRARY} libdnnl.so.3 ${destination})
  # Not on every machine: python:slim images have no libgomp.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.so.1
                  OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
  rushlight_install_library(gomp ${gomp} libgomp.so.1 ${destination})
endfunction()
