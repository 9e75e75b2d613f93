#include "importer/archive/testing/zip_bytes.h"

#include <zlib.h>

namespace adjoin {
namespace {

template <typename T>
void Put(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

std::string ZipBytes(const ZipEntries& entries, uint16_t method, int64_t claimed) {
  std::string file, directory;
  for (const auto& [name, content] : entries) {
    const uint32_t begin = static_cast<uint32_t>(file.size()), bytes = static_cast<uint32_t>(content.size());
    const uint32_t crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    const bool first = directory.empty();
    Put<uint32_t>(0x04034b50, file);
    file.append(14, '\0');
    Put<uint32_t>(bytes, file);
    Put<uint32_t>(bytes, file);
    Put<uint16_t>(static_cast<uint16_t>(name.size()), file);
    Put<uint16_t>(0, file);
    file += name + content;
    Put<uint32_t>(0x02014b50, directory);
    directory.append(6, '\0');
    Put<uint16_t>(first ? method : 0, directory);
    directory.append(4, '\0');
    Put<uint32_t>(crc, directory);
    for (int i = 0; i < 2; ++i)
      Put<uint32_t>(first && claimed >= 0 ? static_cast<uint32_t>(claimed) : bytes, directory);
    Put<uint16_t>(static_cast<uint16_t>(name.size()), directory);
    directory.append(12, '\0');
    Put<uint32_t>(begin, directory);
    directory += name;
  }
  const uint32_t begin = static_cast<uint32_t>(file.size());
  file += directory;
  Put<uint32_t>(0x06054b50, file);
  file.append(6, '\0');
  Put<uint16_t>(static_cast<uint16_t>(entries.size()), file);
  Put<uint32_t>(static_cast<uint32_t>(directory.size()), file);
  Put<uint32_t>(begin, file);
  Put<uint16_t>(0, file);
  return file;
}

}  // namespace adjoin
