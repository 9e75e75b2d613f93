// How much of a name that a file has is shown in a message.
#ifndef ADJOIN_IMPORTER_ARCHIVE_SHOWN_NAME_H_
#define ADJOIN_IMPORTER_ARCHIVE_SHOWN_NAME_H_

#include <cstddef>

namespace adjoin {

inline constexpr size_t kMaxShownName = 200;  // bytes, for PrintableText

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_SHOWN_NAME_H_
