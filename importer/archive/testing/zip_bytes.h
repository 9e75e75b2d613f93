// Zip archives of stored entries, also such that lie.
//
//   std::string file = ZipBytes({{"model/archive_format", "pt2"}, {"model/byteorder", "little"}});
#ifndef ADJOIN_IMPORTER_ARCHIVE_TESTING_ZIP_BYTES_H_
#define ADJOIN_IMPORTER_ARCHIVE_TESTING_ZIP_BYTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace adjoin {

using ZipEntries = std::vector<std::pair<std::string, std::string>>;  // names and contents

// With right checksums. `method` and `claimed` bytes are what the directory says of the first entry; -1: what it has.
std::string ZipBytes(const ZipEntries& entries, uint16_t method = 0, int64_t claimed = -1);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_TESTING_ZIP_BYTES_H_
