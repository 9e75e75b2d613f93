#include "worker/data/array_file.h"

#include "base/status_macros.h"
#include "worker/data/array_formats.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<ArrayFile>> ArrayFile::Open(const std::string& path, const ArrayFileOptions& options,
                                                           const ArrayFormats& formats) {
  ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* const format, formats.Of(path, options));
  return format->open(path, options);
}

absl::StatusOr<ArrayHeader> ReadArrayHeader(const std::string& path, const ArrayFileOptions& options,
                                            const ArrayFormats& formats) {
  ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* const format, formats.Of(path, options));
  return format->header(path, options);
}

absl::StatusOr<ArrayHeader> CheckArrayFile(const std::string& path, const ArrayFileOptions& options,
                                           CheckLimits* limits, const ArrayFormats& formats) {
  ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* const format, formats.Of(path, options));
  return format->check(path, options, limits);
}

}  // namespace adjoin
