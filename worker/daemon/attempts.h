// The attempts that run on this daemon. For each rank, joins the state of its process (from the supervisor), its
// messages (from the rank link) and its orders (from the coordinator).
//
//   NodeAttempts attempts(settings, send);            // `send` passes a message to the coordinator
//   attempts.Start(epoch, start_ranks);
//   attempts.Stop("job-1", epoch, "cancelled by a user");
//
// Facts about an attempt (ranks ready, ended, all processes gone) are sent when they happen, and told again in the
// hello of each stream until the coordinator has acknowledged the attempt's end: MakeReports and what follows it miss
// none between them. Every rank ends once, after its process was reaped; when no process of an attempt is left,
// AttemptCleared follows. Any thread; it calls `send`, and MakeReports' `open`, with its lock held, so they must not
// call back.
#ifndef ADJOIN_WORKER_DAEMON_ATTEMPTS_H_
#define ADJOIN_WORKER_DAEMON_ATTEMPTS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.pb.h"
#include "proto/rates.pb.h"
#include "proto/worker.pb.h"
#include "worker/daemon/detached_calls.h"
#include "worker/daemon/mount_calls.h"
#include "worker/daemon/process_record.h"
#include "worker/daemon/process_spawner.h"
#include "worker/daemon/rank_binding.h"
#include "worker/daemon/rank_supervisor.h"

namespace adjoin {

// The daemon's end of the stream to one rank. Send does not wait for the rank, and is a no-op once the stream has
// ended.
class RankPeer {
 public:
  virtual ~RankPeer() = default;
  virtual void Send(const DaemonMessage& message) = 0;
};

class NodeAttempts {
 public:
  struct Settings {
    std::string rank_binary;
    std::string socket;       // where ranks connect, as their --socket
    std::string rank_folder;  // their working directory; empty: the daemon's
    std::string data_root, output_root;
    std::string cache_dir;  // as ranks see it from rank_folder
    int64_t cache_bytes = 0;
    std::optional<RateTable> rates;  // of the node; absent: not measured
    std::string net_device, data_port_range;
    std::optional<User> rank_user;  // absent: the daemon's own
    // Checks and makes a job's paths before its ranks start. It may take as long as file systems do, so it is called on
    // threads of its own, which may outlive the NodeAttempts; it calls `enter` before it touches a path
    // (mount_calls.h). kResourceExhausted: not the job's fault; kDeadlineExceeded: that of its files' file system, or
    // of those of others, for which it waited; kAborted: the node's. Absent: PrepareJobPaths.
    std::function<absl::Status(const StartRanks&, const MountCalls::Enter& enter)> prepare;
    // Returns why no rank can run on this node now, "" where they can; does not wait. Absent: they always can.
    std::function<std::string()> unfit;
    std::vector<RankPlace> places;  // of a rank in each slot; empty: ranks run anywhere
    // Preparations at once; StartRanks beyond those that may wait are refused. The time is for coordinators that tell
    // none (StartRanks.prepare_seconds): three quarters of the 120 s that they wait by default.
    MountCalls::Limits preparing = {
        .of_one_mount = 16, .waiting_for_one = 48, .in_all = 256, .waiting_for_thread = 256, .time = absl::Seconds(90)};
    DetachedCalls::StartThread start_preparing;  // starts the thread of each; absent: as DetachedCalls does
    // The last process of another store's attempt is gone: the coordinator waits for a hello that says so. May be
    // empty.
    std::function<void()> on_foreign_gone;
    absl::Duration stop_grace = absl::Seconds(2);   // between the request to stop and SIGKILL
    absl::Duration exit_grace = absl::Seconds(10);  // between a rank's result and SIGKILL
  };

  // `record`, where there is one, names the processes while they live; it outlives the attempts.
  NodeAttempts(Settings settings, std::function<void(WorkerMessage)> send, ProcessRecord* record = nullptr);

  // The GPUs that ranks may use, one rank each at a time. Before the first hello.
  void OfferGpus(std::vector<Gpu> gpus);

  // Orders from the coordinator. An attempt that is here is not started again. One that was here, or that comes while
  // an earlier attempt of the job has processes here, ends at once with the reason, and the coordinator may start
  // another. A rank that needs a GPU gets one for itself, until no process of its attempt is left.
  void Start(uint64_t epoch, const StartRanks& start);
  void ConnectRanks(uint64_t epoch, const adjoin::ConnectRanks& connect);
  void Stop(const std::string& job_id, uint64_t epoch, const std::string& reason);
  void Acknowledged(const std::string& job_id, uint64_t epoch);
  // Passes it on to rank 0, where that runs here.
  void Trace(uint64_t epoch, const TraceRank& trace);

  // The stream to the coordinator. MakeReports fills a hello and calls `open`; messages sent from then on follow that
  // hello. While there is no stream, a rank that fails takes the other ranks of its attempt here with it.
  void MakeReports(WorkerHello& hello, const std::function<void()>& open);
  void Connected();
  // The coordinator that answered has this store. Where it is another one than before, what was here is another
  // coordinator's, whose epochs mean nothing to this one: its ranks are killed at once, as no result of theirs can be
  // stored any more, and their reports are dropped. Returns false then: what was sent to the coordinator so far was not
  // for it. 0: an older coordinator, which does not say.
  bool Welcomed(uint64_t store_id);
  void Disconnected();
  // Fills all but the sequence.
  void FillHeartbeat(Heartbeat& heartbeat);

  // Tells all ranks until when they may run; `length` is for messages.
  void SetLease(int64_t until_boottime_ns, absl::Duration length);
  void LeaseOver();

  // Asks all ranks to stop after a step; nothing starts any more.
  void Drain(const std::string& reason);
  // Kills all ranks; the coordinator is told "was killed: <reason>".
  void KillAll(const std::string& reason);
  // Waits until no process is left. Returns false where the deadline came first.
  bool WaitUntilCleared(Deadline deadline);
  // Waits until the coordinator has acknowledged the end of every attempt. Returns false after the deadline or
  // EndWaits.
  bool WaitUntilAcknowledged(Deadline deadline);
  void EndWaits();

  // True where `process` was started here for a rank, and has not ended.
  bool IsRank(pid_t process);
  // Checks that `process` is the one that was started for the rank of this hello. Errors: kPermissionDenied.
  absl::Status CheckProcess(uint64_t epoch, const RankHello& hello, pid_t process);
  // What comes from a rank: its hello, which is answered by its orders; its other messages; the end of its stream.
  // Errors: kNotFound (no such rank is to run here, now), kAlreadyExists (it is connected already).
  absl::Status RankConnected(uint64_t epoch, const RankHello& hello, std::shared_ptr<RankPeer> peer);
  void RankSaid(const RankKey& key, const RankMessage& message);
  void RankDisconnected(const RankKey& key);

 private:
  struct Rank {
    RankReport report;  // its `ended` is set once, when it is reported
    int place = -1;     // in Settings::places; -1: none
    pid_t process = 0;
    std::shared_ptr<RankPeer> peer;  // while its stream lasts
    std::optional<RankResult> result;
    std::optional<RankExit> exit;
    RankPulse pulse;
    Deadline::Clock::time_point pulse_at = Deadline::Clock::now();
  };
  struct Attempt {
    std::shared_ptr<const StartRanks> start;  // of one that is cleared, the store's id only
    std::map<uint32_t, Rank> ranks;
    uint64_t preparation = 0;  // the number of the one under way; 0: there is none
    uint64_t call = 0;         // that makes it, in calls_
    bool stopping = false;
    std::string killed;  // why the daemon itself killed it
    bool cleared = false;
    std::optional<Deadline::Clock::time_point> connected_at;  // its ranks got their peers' addresses

    double RunningSeconds() const;
  };
  using AttemptKey = std::pair<std::string, uint64_t>;

  void OnPrepared(const AttemptKey& key, uint64_t preparation, const absl::Status& prepared);
  void OnStart(const RankKey& key, pid_t pid);
  void OnLog(const RankKey& key, std::vector<std::string> lines);
  void OnExit(const RankKey& key, const RankExit& exit);
  Rank* Find(const RankKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns why a StartRanks is ignored; "" where it is not.
  std::string WhyNot(const AttemptKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true where the coordinator has another store than before.
  bool TakeStore(uint64_t store_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsForeign(const Attempt& attempt) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the coordinator that none of these ranks will run, and keeps nothing of them.
  void Refuse(uint64_t epoch, const StartRanks& start, const std::string& why);
  // Gives each rank of an attempt the GPUs that it needs. Returns why that cannot be; "" where it is done.
  std::string GiveGpus(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives each rank of an attempt a place that no other has, neighbours beside each other. Where there are too few,
  // the others run anywhere.
  void GivePlaces(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // By UUID, of those that no attempt here has.
  std::vector<std::string> FreeGpus() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(const AttemptKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The attempt of this job that is not cleared; 0: none.
  uint64_t LivingAttempt(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whose fault it is that ranks do not start: infrastructure are the last three. kFiles: the file system of the job's
  // own files does not answer, or those of so many others that it could not look at its own: the node can run ranks.
  enum class Fault { kJob, kDaemon, kFiles, kNode };
  static Fault FaultOf(const absl::Status& prepared);
  // Ends all ranks of an attempt of which no process was started.
  void EndUnstarted(const AttemptKey& key, RankEnd end, const std::string& error, Fault fault)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportIfOver(const RankKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RankEnded EndOf(const RankKey& key, const Rank& rank, const Attempt& attempt) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportEnd(const RankKey& key, RankEnded ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopPeersOfFailed(const AttemptKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopLocked(const AttemptKey& key, const std::string& reason, absl::Duration grace)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToRanks(Attempt& attempt, uint64_t epoch, DaemonMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DaemonMessage Orders(const Attempt& attempt, const Rank& rank) const;
  DaemonMessage LeaseMessage() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DaemonMessage DrainMessage() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string LeaseText() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SpawnRequest CommandOf(const RankKey& key, uint64_t memory_bytes, const Rank& rank) const;
  void SendToCoordinator(uint64_t epoch, WorkerMessage message);

  const Settings settings_;
  const std::function<void(WorkerMessage)> send_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;  // an attempt is cleared or acknowledged
  std::map<AttemptKey, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  uint64_t store_id_ ABSL_GUARDED_BY(mutex_) = 0;                   // whose epochs newest_ has; 0: not known yet
  AttemptKey latest_ ABSL_GUARDED_BY(mutex_);                       // the highest epoch that was here
  std::map<std::string, uint64_t> newest_ ABSL_GUARDED_BY(mutex_);  // epoch of each job that was here
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;                  // the highest epoch dropped from newest_
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::string> draining_ ABSL_GUARDED_BY(mutex_);  // why
  bool waits_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Gpu> gpus_ ABSL_GUARDED_BY(mutex_);
  int64_t lease_until_ ABSL_GUARDED_BY(mutex_) = 0;  // by CLOCK_BOOTTIME; 0: none yet
  absl::Duration lease_length_ ABSL_GUARDED_BY(mutex_);
  uint64_t preparations_ ABSL_GUARDED_BY(mutex_) = 0;  // so many began
  RankSupervisor supervisor_;                          // its thread uses the rest
  MountCalls calls_;                                   // last: its threads use the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ATTEMPTS_H_
