#include "proto/killed_by_signal.h"

#include <signal.h>
#include <string.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

std::string WithNumber(int signal) { return absl::StrCat("was killed by signal ", signal); }

}  // namespace

std::string KilledBySignal(int signal) {
  const char* name = sigabbrev_np(signal);
  return absl::StrCat(WithNumber(signal), name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
}

bool WasKilledFromOutside(absl::string_view error) {
  for (int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    if (absl::StartsWith(error, absl::StrCat(WithNumber(signal), " "))) return true;
  }
  return false;
}

}  // namespace adjoin
