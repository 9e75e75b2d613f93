#include "worker/daemon/ready_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/state_folder.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr char kContent[] = "connected\n";

}  // namespace

absl::Status ReadyFile::Check() {
  if (path_.empty()) return absl::OkStatus();
  if (absl::Status made = WriteFileAtomically(path_, kContent); !made.ok())
    return absl::UnavailableError(absl::StrCat("--ready-file: ", std::string(made.message())));
  Clear();
  return absl::OkStatus();
}

void ReadyFile::Set() {
  if (path_.empty()) return;
  if (absl::Status made = WriteFileAtomically(path_, kContent); !made.ok())
    LogError(absl::StrCat("--ready-file: ", std::string(made.message()), "; probes see this daemon as not connected"));
}

void ReadyFile::Clear() {
  struct stat info = {};
  if (lstat(path_.c_str(), &info) == 0 && S_ISREG(info.st_mode)) unlink(path_.c_str());
}

}  // namespace adjoin
