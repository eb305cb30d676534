# Finds a shared library inside an installed pip package, and puts one stripped copy of it beside the
# extension module. Used by OpenBLAS.cmake.

# Sets `variable` to the path of the file of pip package `package` whose path ends in `suffix`. The
# package's own record is asked, not sys.prefix: in pip's isolated builds the two differ.
function(rushlight_package_file package suffix variable)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "
import importlib.metadata as metadata, sys
package, suffix = sys.argv[1:]
for file in metadata.distribution(package).files:
    if file.as_posix().endswith(suffix):
        print(file.locate().resolve().as_posix())
        break
else:
    sys.exit(f'{package} has no file {suffix}')
" ${package} ${suffix}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE trouble RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "Needs the pip package ${package} in the environment of ${Python_EXECUTABLE}"
                        " (pip install ${package}):\n${trouble}")
  endif()
  set(${variable} ${path} PARENT_SCOPE)
endfunction()

# Imported target rushlight::<name> for a library and its headers.
function(rushlight_import_library name library include_directory)
  add_library(rushlight::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(rushlight::${name} PROPERTIES
    IMPORTED_LOCATION ${library}
    INTERFACE_INCLUDE_DIRECTORIES ${include_directory})
endfunction()

# Copies `library`, without symbols and unwind tables, to the build folder as `file_name` (what the
# loader looks for), and installs that copy into `destination`.
function(rushlight_install_library name library file_name destination)
  set(copy ${PROJECT_BINARY_DIR}/bundled/${file_name})
  add_custom_command(
    OUTPUT ${copy}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/bundled
    COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/drop_unwind_tables.py
            ${CMAKE_STRIP} ${library} ${copy}
    DEPENDS ${library} ${PROJECT_SOURCE_DIR}/cmake/drop_unwind_tables.py
    COMMENT "Copying ${file_name}")
  add_custom_target(rushlight_bundle_${name} ALL DEPENDS ${copy})
  install(FILES ${copy} DESTINATION ${destination}
          PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                      WORLD_READ WORLD_EXECUTE)
endfunction()
