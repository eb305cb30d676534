# Runs the generator on the op table.
#
# `python -m gen --list` prints the outputs, a path a line, relative to the output folder; the list may
# depend on gen/*.py and on which files ops/ has, not on their rows. `python -m gen --out DIR` writes
# them, leaving alone each file whose text did not change, so that one row rebuilds little. What is
# under python/ there belongs to the package; a file in bind/, or named bind_*, sees Python's headers.
#
# Sets RUSHLIGHT_GENERATED_DIR, RUSHLIGHT_GENERATED_SOURCES (*.cpp) and RUSHLIGHT_GENERATED_PYTHON;
# target rushlight_generate.

set(RUSHLIGHT_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
file(GLOB_RECURSE generator CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/gen/*.py)
file(GLOB table CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*.py)
# Their text becomes part of the module: kernels of a GPU are compiled when it runs.
file(GLOB device_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cuda/device/*
     ${PROJECT_SOURCE_DIR}/src/math/*.h ${PROJECT_SOURCE_DIR}/src/core/number.h
     ${PROJECT_SOURCE_DIR}/src/kernels/optim_rule*.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${generator})

execute_process(
  COMMAND ${Python_EXECUTABLE} -m gen --list
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  OUTPUT_VARIABLE outputs OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "`python -m gen --list` failed: see above")
endif()
string(REPLACE "\n" ";" outputs "${outputs}")
list(TRANSFORM outputs PREPEND ${RUSHLIGHT_GENERATED_DIR}/)

add_custom_command(
  OUTPUT ${outputs}
  COMMAND ${Python_EXECUTABLE} -m gen --out ${RUSHLIGHT_GENERATED_DIR}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  DEPENDS ${generator} ${table} ${device_headers}
  COMMENT "Generating ops from the table")
add_custom_target(rushlight_generate DEPENDS ${outputs})

set(RUSHLIGHT_GENERATED_SOURCES ${outputs})
list(FILTER RUSHLIGHT_GENERATED_SOURCES INCLUDE REGEX "\\.cpp$")
set(RUSHLIGHT_GENERATED_PYTHON ${outputs})
list(FILTER RUSHLIGHT_GENERATED_PYTHON INCLUDE REGEX "/generated/python/")
