# For Pyodide, the Python of the browser: a side module, which its main module loads. Compilers that
# are older than Pyodide's own will do; exceptions must be WebAssembly's, as they are there.
target_compile_options(rushlight_flags INTERFACE
  -fwasm-exceptions -sSUPPORT_LONGJMP=wasm -msimd128
  -Wno-unused-command-line-argument)

# Most of what a file takes to compile is in these.
function(rushlight_precompile target python)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <functional> <memory> <string> <unordered_map> <vector> ${python}
    ${PROJECT_SOURCE_DIR}/src/tensor/tensor.h ${RUSHLIGHT_GENERATED_DIR}/ops_basic.h
    ${RUSHLIGHT_GENERATED_DIR}/ops_shape.h)
endfunction()

# An executable to CMake, as that platform has no modules for it. What is neither exported nor
# used is left out.
function(rushlight_side_module name)
  set(objects ${ARGN})
  list(FILTER objects INCLUDE REGEX "TARGET_OBJECTS")
  set(sources ${ARGN})
  list(FILTER sources EXCLUDE REGEX "TARGET_OBJECTS")
  add_library(rushlight_bind OBJECT ${sources})
  target_link_libraries(rushlight_bind PRIVATE rushlight_flags)
  add_dependencies(rushlight_bind rushlight_generate)
  rushlight_precompile(rushlight_bind "${PROJECT_SOURCE_DIR}/src/bind/object.h")
  add_executable(${name} ${objects} $<TARGET_OBJECTS:rushlight_bind>)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_options(${name} PRIVATE
    -O2 -sSIDE_MODULE=2 -sWASM_BIGINT -sEXPORTED_FUNCTIONS=_PyInit_${name}
    -fwasm-exceptions -sSUPPORT_LONGJMP=wasm -Wl,--export=PyInit_${name})
endfunction()
