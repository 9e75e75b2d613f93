#include "tests/predict/npy_numbers.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace adjoin {

void WriteNpy(const std::string& path, const std::vector<float>& values, int columns) {
  std::string header = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (", values.size() / columns,
                                    ", ", columns, "), }");
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(header.size()), 0};
  std::ofstream file(path, std::ios::binary);
  file.write(magic, sizeof(magic)) << header;
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
}

std::vector<float> Numbers(int count, float factor) {
  std::vector<float> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(factor * static_cast<float>((7 * i) % 5 - 2));
  return numbers;
}

}  // namespace adjoin
