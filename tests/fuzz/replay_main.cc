// Runs a fuzz target on every file of the given folders, without a fuzzer: what once broke it stays mended.
//
//   spec_corpus_test tests/fuzz/corpus/spec
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  std::set<std::string> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_directory()) files.insert(entry.path());
    }
  }
  if (files.empty()) {
    std::cerr << "no inputs\n";
    return 1;
  }
  for (const std::string& path : files) {
    std::cerr << path << std::endl;
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
  std::cerr << files.size() << " inputs\n";
  return 0;
}
