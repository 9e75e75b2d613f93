// Owns the rank processes of a daemon: starts them, reads what they write, reaps them, kills them.
//
//   RankSupervisor supervisor({.on_start = ..., .on_log = ..., .on_exit = ...});
//   supervisor.Start({{.job_id = "job-1", .epoch = 4, .rank = 0}, spawn_request});
//   supervisor.Kill("job-1", 4, absl::Seconds(2));     // SIGKILL to the ranks of the attempt that are left then
//
// One thread does all of it and calls back from there. on_start comes once for every process that runs; on_exit once
// for every process that was to be started (also where it could not be), after it was reaped and its last line was
// passed on. Any thread may call the methods. The destructor kills and reaps what is left.
#ifndef ADJOIN_WORKER_DAEMON_RANK_SUPERVISOR_H_
#define ADJOIN_WORKER_DAEMON_RANK_SUPERVISOR_H_

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/unique_fd.h"
#include "worker/daemon/line_splitter.h"
#include "worker/daemon/process_record.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

struct RankKey {
  std::string job_id;
  uint64_t epoch = 0;
  uint32_t rank = 0;
};

struct RankExit {
  int code = 0;             // where it exited
  int signal = 0;           // the signal that killed it, else 0
  std::string spawn_error;  // it never ran

  // The text after "rank 2 on worker-1" in a message: "was killed by signal 9 (SIGKILL)", "exited with code 3".
  std::string ToString() const;
};

class RankSupervisor {
 public:
  struct Callbacks {
    std::function<void(const RankKey&, pid_t)> on_start;
    std::function<void(const RankKey&, std::vector<std::string>)> on_log;
    std::function<void(const RankKey&, const RankExit&)> on_exit;
  };

  // `record`, where there is one, outlives the supervisor and names its processes; a process that cannot be recorded
  // is not run. The constructor ends the daemon where the system has no descriptors left.
  explicit RankSupervisor(Callbacks callbacks, ProcessRecord* record = nullptr);
  ~RankSupervisor();
  RankSupervisor(const RankSupervisor&) = delete;
  RankSupervisor& operator=(const RankSupervisor&) = delete;

  void Start(RankKey key, SpawnRequest request);
  // After `grace`, kills the process groups of the attempt's ranks that are still there. Where it is called twice, the
  // earlier end counts.
  void Kill(const std::string& job_id, uint64_t epoch, absl::Duration grace);
  // The same for one rank.
  void KillRank(const RankKey& key, absl::Duration grace);

 private:
  struct Process {
    RankKey key;
    ChildProcess child;
    LineSplitter out, err;
    bool killing = false;
    Deadline kill_at = Deadline::After(absl::ZeroDuration());
    bool reaped = false;
  };
  struct StartCommand {
    RankKey key;
    SpawnRequest request;
  };
  struct KillCommand {
    std::string job_id;
    uint64_t epoch = 0;
    std::optional<uint32_t> rank;  // absent: all
    Deadline at;
  };
  void Enqueue(KillCommand command);

  void Loop();
  void RunCommands();
  void StartNow(StartCommand& command);
  absl::StatusOr<ChildProcess> SpawnRecorded(const SpawnRequest& request);
  void KillDue();
  int PollTimeoutMs() const;
  void ReadLines(Process& process, UniqueFd& fd, LineSplitter& splitter);
  void Reap(Process& process);
  void Wake();

  const Callbacks callbacks_;
  ProcessRecord* const record_;
  UniqueFd wake_;
  absl::Mutex mutex_;
  std::vector<StartCommand> starts_ ABSL_GUARDED_BY(mutex_);
  std::vector<KillCommand> kills_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Process> processes_;  // the thread's own
  std::thread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_RANK_SUPERVISOR_H_
