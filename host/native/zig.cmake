# Toolchain: PyPI's ziglang, a C++ compiler with its own libraries. `make` takes it where there is no other compiler, and
# for wheels: it links the C++ library into the module, and asks for no newer glibc than pyarrow's wheels do.
find_program(MUNTIN_ZIG python-zig REQUIRED)  # in the environment's bin, which is on the PATH
set(CMAKE_CXX_COMPILER ${MUNTIN_ZIG} c++ -target ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.2.28)
set(CMAKE_AR ${MUNTIN_ZIG})
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> ar qcs <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> ar qs <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "")
set(MUNTIN_MARCH x86_64_)  # Zig writes x86-64-v3 so
