// A process as /proc/PID/stat shows it.
//
//   std::optional<ProcStat> stat = ReadProcStat(pid);
//   bool stopped = stat.has_value() && stat->Stopped();
//
// Any thread.
#ifndef ADJOIN_WORKER_DAEMON_PROC_STAT_H_
#define ADJOIN_WORKER_DAEMON_PROC_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace adjoin {

struct ProcStat {
  char state = '?';  // as in proc(5): R, S, D, T, t, Z, ...
  pid_t parent = 0;
  uint64_t start_time = 0;  // ticks since the machine started; no other process has the same pid and start time

  bool Stopped() const { return state == 'T' || state == 't'; }
  bool Dead() const { return state == 'Z' || state == 'X'; }  // it runs nothing any more, and waits to be reaped
};

// Returns nothing where there is no such process.
std::optional<ProcStat> ReadProcStat(pid_t pid);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_PROC_STAT_H_
