// The worker daemons: which are connected and heard of, and which of their slots are free.
//
//   WorkerTable workers(options, outbox);
//   ADJOIN_RETURN_IF_ERROR(workers.CheckName(hello));
//   workers.Attach(/*connection=*/1, hello);
//   std::vector<FreeSlots> free = workers.FreeFor(spec.resources());
//
// A worker is known by its name. It stays known while it is lost and may have processes. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_WORKER_TABLE_H_
#define ADJOIN_COORDINATOR_DECISIONS_WORKER_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/shared_texts.h"
#include "coordinator/placement/assignment.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// What a job has of a worker.
struct Held {
  int slots = 0;
  int gpus = 0;
  int64_t memory = 0;  // bytes that its ranks there are expected to take
};

struct WorkerRecord {
  // What a decision asks of thousands of workers stands together.
  ConnectionId connection = 0;  // 0: none now
  absl::Duration last_heard;
  absl::Duration heartbeat;  // the longest that may lie between the last one and the next
  bool attached = false;     // it has connected since the coordinator's start
  bool draining = false;
  bool dead = false;
  bool fit = true;  // hello.condition is empty
  // What no job holds, of every worker, usable or not. Slots and memory are less than none where a daemon was started
  // anew with fewer than are held.
  FreeSlots free;
  // What `free` has views of: the same texts for all workers that have them.
  std::shared_ptr<const std::string> output_id, program;

  WorkerHello hello;              // without the attempts and the rates
  absl::Duration told_heartbeat;  // between its heartbeats, as it was told last
  absl::Duration detached;        // when its last connection ended
  absl::Duration look_at;         // WorkerTable::Silent asks then whether it is lost
  std::map<uint64_t, Held> held;  // by job number
  std::set<uint64_t> starting;    // jobs, by number, of which the ranks here are not connected yet
  absl::Duration last_start = -absl::InfiniteDuration();  // monotonic: ranks here were connected

  // Returns how many free slots are left when each free GPU has one for its rank.
  int SlotsBesideGpus() const;
  // Returns the bytes that the worker has for ranks; those of the GPU that has least. Absent: not known.
  std::optional<int64_t> Memory() const;
  std::optional<int64_t> GpuMemory() const;
};

class WorkerTable {
 public:
  // `options` and `outbox` outlive the table.
  WorkerTable(const CoordinationOptions& options, Outbox& outbox) : options_(options), outbox_(outbox) {}
  WorkerTable(const WorkerTable&) = delete;
  WorkerTable& operator=(const WorkerTable&) = delete;

  const std::map<std::string, WorkerRecord>& All() const { return workers_; }  // by name
  const std::set<std::string>& Lost() const { return lost_; }
  // How many were lost since the coordinator's start that had not said they were about to stop.
  uint64_t lost_in_all() const { return lost_in_all_; }
  const WorkerRecord& At(const std::string& name) const { return workers_.at(name); }
  // Null where no worker has this name.
  const WorkerRecord* Find(const std::string& name) const;
  // "" where no worker has this connection.
  std::string NameOf(ConnectionId connection) const;

  // By how much longer than the options say the worker may be silent: two of its heartbeats may come that much later.
  absl::Duration Lateness(const WorkerRecord& worker) const {
    if (worker.heartbeat <= options_.heartbeat) return absl::ZeroDuration();
    return 2 * (worker.heartbeat - options_.heartbeat);
  }
  // True where the worker is connected, and was heard of a moment ago.
  bool IsHeard(const WorkerRecord& worker) const;
  // True where the worker is heard of, and may get new ranks and data checks.
  bool IsUsable(const WorkerRecord& worker) const;
  // True where nothing but what jobs say of it keeps it from being usable: it is set aside for a while.
  bool ComesBack(const WorkerRecord& worker) const;
  // "ready" "suspect" "set aside" "unfit" "draining" "lost"
  std::string StateOf(const WorkerRecord& worker) const;
  // Why it is given no ranks, where it is heard of: its own condition, or why it is set aside and for how long; ""
  // else.
  std::string ConditionOf(const WorkerRecord& worker) const;

  // The usable workers that have the labels of `wanted`: with their free slots, where they have any; with all their
  // slots. `beside_gpus`: free are only WorkerRecord::SlotsBesideGpus, and no GPUs.
  std::vector<FreeSlots> FreeFor(const Resources& wanted, bool beside_gpus = false) const;
  std::vector<FreeSlots> AllFor(const Resources& wanted) const;
  // As AllFor, and those that come back by themselves (ComesBack).
  std::vector<FreeSlots> AllInTimeFor(const Resources& wanted) const;
  // As AllFor, of all workers that are not lost, whatever keeps them from being usable now.
  std::vector<FreeSlots> AllKnownFor(const Resources& wanted) const;
  // True where `fits` is for any worker of AllInTimeFor, or of AllKnownFor; it is asked no more after that.
  bool AnyInTimeFor(const Resources& wanted, const std::function<bool(const FreeSlots&)>& fits) const;
  bool AnyKnownFor(const Resources& wanted, const std::function<bool(const FreeSlots&)>& fits) const;

  // What each job holds of all workers together, usable or not, by job number; no job that holds nothing.
  const std::map<uint64_t, Held>& HeldByJob() const { return held_by_job_; }
  // True where a worker, usable or not, has fewer free slots than free GPUs.
  bool AnyLacksSlotsForGpus() const { return lacking_slots_ > 0; }
  // The jobs that hold slots of the worker, by number.
  std::vector<uint64_t> HoldersOf(const std::string& name) const;

  // Errors: those of CheckHello; kAlreadyExists (another daemon of this name is connected and heard of).
  absl::Status CheckName(const WorkerHello& hello) const;
  // The daemon is connected from now on. A GPU that a worker of another name offers does not count.
  void Attach(ConnectionId connection, const WorkerHello& hello);
  // Its connection has ended.
  void Detach(ConnectionId connection);
  // Ends the connection of this worker, if any, from here.
  void CloseConnection(const std::string& name);
  // The worker is lost; its slots stay held until each job releases them.
  void Lose(const std::string& name);
  // Forgets the lost workers that hold no slots. True where there were any.
  bool ForgetLost();
  // Adds a worker that ran ranks before this coordinator started, if it is not there yet, and has not connected since.
  void Expect(const std::string& name, const Holder& holder);

  // Sends nothing to a worker that is not connected: its next hello tells what it needs. `urgent`, `plan_of`: as
  // Action's.
  void Send(const std::string& name, uint64_t epoch, CoordinatorMessage message, bool urgent = false,
            uint64_t plan_of = 0);

  // Returns how far apart the worker's heartbeats are to be, by the number of daemons that are connected. An
  // acknowledgement tells it to the worker.
  absl::Duration TellHeartbeat(const std::string& name);
  void Heard(const std::string& name) { workers_.at(name).last_heard = options_.Now(); }
  void SetDraining(const std::string& name, bool draining) { workers_.at(name).draining = draining; }
  // What is wrong with the worker's node, as its daemon tells it; "": nothing. Returns false where that was known.
  bool SetCondition(const std::string& name, const std::string& condition);
  void SetOutputId(const std::string& name, const std::string& id);
  // The worker gets no ranks before `until`, and then one attempt at a time, until Trust. `reason`, for people: what
  // happened there. `by_itself`: a new incarnation of the daemon is tried at once. Also of a worker that is lost.
  void SetAside(const std::string& name, absl::Duration until, const std::string& reason, bool by_itself);
  bool IsSetAside(const std::string& name) const;
  // When a trial may begin there, or might have begun; -InfiniteDuration() where it is not set aside.
  absl::Duration TrialAt(const std::string& name) const;
  // Ranks of an attempt were connected there. True where it had been set aside.
  bool Trust(const std::string& name);
  // Ends it without such a proof. True where it had been set aside.
  bool EndSetAside(const std::string& name);
  // True where the time of a worker has ended since the last call, or EndSetAside has ended it.
  bool TakeTrials();
  // An attempt of the job starts there; or its ranks are connected, or it is over.
  void SetStarting(const std::string& name, uint64_t job, bool starting);

  void Hold(const std::string& name, uint64_t job, Held held);
  void Release(const std::string& name, uint64_t job);
  // The coordinator stood still for so long, in which it could hear of no worker.
  void ForgivePause(absl::Duration pause);

  // The workers that were silent for so long that they are lost, with that time. Each is told once: call Lose. It looks
  // only at workers whose time may have come.
  std::vector<std::pair<std::string, absl::Duration>> Silent();

 private:
  bool IsHeardAt(const WorkerRecord& worker, absl::Duration now) const;
  bool IsUsableAt(const WorkerRecord& worker, absl::Duration now) const;
  bool ComesBackAt(const WorkerRecord& worker, absl::Duration now) const;
  bool IsInTimeAt(const WorkerRecord& worker, absl::Duration now) const {
    return IsUsableAt(worker, now) || ComesBackAt(worker, now);
  }
  bool IsSetAsideAt(const std::string& name, absl::Duration now) const;
  // Calls `visit` with each worker that has the labels and `counts`, until it returns true. True where it did.
  template <typename Counts, typename Visit>
  bool VisitAll(const Resources& wanted, const Counts& counts, const Visit& visit) const;
  template <typename Counts>
  std::vector<FreeSlots> AllOf(const Resources& wanted, const Counts& counts) const;
  // Brings WorkerRecord::free up to date. Call it when anything has changed of which it is made.
  void CountFree(const std::string& name);
  void SetHasFree(const WorkerRecord& worker, bool has_free);
  // Adds `times` what a job holds of a worker to its sum.
  void AddHeld(uint64_t job, const Held& held, int times);
  // For how long the worker may be silent. Where that gets shorter, call LookAt.
  absl::Duration LongestSilence(const WorkerRecord& worker) const;
  void LookAt(const std::string& name, WorkerRecord& worker);
  void DropGpusOfOthers(WorkerHello& hello);

  const CoordinationOptions& options_;
  Outbox& outbox_;
  SharedTexts texts_;
  std::map<std::string, WorkerRecord> workers_;
  // By name; usable or not: so a full cluster is not looked through for each job.
  std::vector<const WorkerRecord*> with_free_slots_;
  std::map<uint64_t, Held> held_by_job_;  // what HeldByJob says
  int lacking_slots_ = 0;                 // workers with fewer free slots than free GPUs
  std::set<std::string> lost_;
  uint64_t lost_in_all_ = 0;
  // Those that are not lost, by WorkerRecord::look_at: the earliest time at which they may be. What is heard of them
  // meanwhile is found then, so that a heartbeat changes nothing here.
  std::set<std::pair<absl::Duration, std::string>> looks_;
  std::map<ConnectionId, std::string> name_of_;
  struct Standing {
    absl::Duration until;  // monotonic; after it: one attempt at a time
    std::string reason;
    bool by_itself = false;
    bool tried = false;  // TakeTrials has told
  };
  std::map<std::string, Standing> standing_;  // of workers that are or were set aside, also lost ones
  bool set_aside_ended_ = false;              // TakeTrials has not told yet
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_WORKER_TABLE_H_
