# Builds for 64-bit ARM Linux on another machine, with the cross compiler that Debian calls
# g++-aarch64-linux-gnu:
#   cmake -S native -B build/arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DMONOLITH_TESTS=ON
# (a relative path counts from native/). Programs are linked statically: an emulator needs nothing else then.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++ REQUIRED)   # in the cache with its whole path
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
# Libraries and headers of the target only; programs are those of this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
