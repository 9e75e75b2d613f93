// Reading what a child process writes, and waiting for its end.
//
//   ADJOIN_ASSIGN_OR_RETURN(ChildProcess child, Spawn(command));
//   std::string out, err;
//   ... poll child.out and child.err for PollMilliseconds(deadline) ...
//   if (!ReadSome(child.out, out)) child.out.reset();
//   kill(-child.pid, SIGKILL);
//   Reap(child, Deadline::After(absl::Seconds(5)));
//   return absl::DataLossError(absl::StrCat("no answer", LastWords(err)));
#ifndef ADJOIN_WORKER_DAEMON_CHILD_OUTPUT_H_
#define ADJOIN_WORKER_DAEMON_CHILD_OUTPUT_H_

#include <cstddef>
#include <string>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

// What is left, as poll() takes it: rounded up.
int PollMilliseconds(Deadline deadline);

// Bytes that are kept of what a program writes.
inline constexpr size_t kMostChildOutput = size_t{4} << 20;

// Appends what can be read now; what is beyond kMostChildOutput is dropped. Returns false at the end.
bool ReadSome(const UniqueFd& from, std::string& text);

// Waits until the process is dead, which must have been killed. Returns false where it is not by then: it is left to
// the kernel.
bool Reap(const ChildProcess& child, Deadline deadline);

// "; it wrote: ..." with the last line of the error output; "" where it is empty.
std::string LastWords(const std::string& err);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_CHILD_OUTPUT_H_
