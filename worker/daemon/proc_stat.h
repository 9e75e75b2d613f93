// What the kernel says of a process in /proc/PID/stat.
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
  char state = '?';         // as in proc(5): R, S, D, T, t, Z, ...
  uint64_t start_time = 0;  // ticks since the machine started: with the number, it names a process for good

  bool Stopped() const { return state == 'T' || state == 't'; }
  bool Dead() const { return state == 'Z' || state == 'X'; }  // it runs nothing any more, and waits to be reaped
};

// Nothing where there is no such process.
std::optional<ProcStat> ReadProcStat(pid_t pid);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_PROC_STAT_H_
