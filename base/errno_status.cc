#include "base/errno_status.h"

#include <errno.h>
#include <string.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"

namespace adjoin {

absl::Status ErrnoStatus(int error, absl::string_view what) {
  const std::string message = absl::StrCat(PrintableText(what), ": ", strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR: return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return absl::ResourceExhaustedError(message);
    default: return absl::UnavailableError(message);
  }
}

}  // namespace adjoin
