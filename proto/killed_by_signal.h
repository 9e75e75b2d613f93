// How RankEnded.error tells that a signal ended a rank's process: written by daemons, read by the coordinator.
//
//   ended.set_error(KilledBySignal(SIGKILL));     // "was killed by signal 9 (SIGKILL)"
//   if (WasKilledFromOutside(ended.error())) ...  // no program sends itself this signal
#ifndef ADJOIN_PROTO_KILLED_BY_SIGNAL_H_
#define ADJOIN_PROTO_KILLED_BY_SIGNAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adjoin {

std::string KilledBySignal(int signal);

// True where the error begins as KilledBySignal of a signal that people, the system or the kernel (for want of memory)
// send: SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT. False for a crash: SIGSEGV, SIGABRT and all others.
bool WasKilledFromOutside(absl::string_view error);

}  // namespace adjoin

#endif  // ADJOIN_PROTO_KILLED_BY_SIGNAL_H_
