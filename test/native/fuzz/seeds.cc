// fuzz_seeds FOLDER: writes the seed inputs to FOLDER, with a subdirectory for each fuzz target.
#include "fuzz/seeds.h"

#include <filesystem>
#include <fstream>

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  for (const auto& [target, name, bytes] : monolith::fuzzing::made_seeds()) {
    const auto folder = std::filesystem::path(argv[1]) / target;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}
