# Toolchain file for cross-compiling to 64-bit ARM Linux. The compiler is from Debian's g++-aarch64-linux-gnu package:
#   cmake -S native -B build/arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DMONOLITH_TESTS=ON
# Relative paths are relative to native/. Programs are linked statically, so an emulator needs no target libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++ REQUIRED)   # stores the full path in the cache
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
# Finds libraries and headers only in the target's tree, and programs only on this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
