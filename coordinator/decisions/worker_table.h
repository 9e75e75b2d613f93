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

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/placement/assignment.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct WorkerRecord {
  WorkerHello hello;            // without the attempts
  ConnectionId connection = 0;  // 0: none now
  absl::Duration last_heard;
  bool attached = false;  // it has connected since the coordinator's start
  bool draining = false;
  bool dead = false;
  std::map<uint64_t, int> held;  // slots, by job number

  int FreeSlots() const;
};

class WorkerTable {
 public:
  // `options` and `outbox` outlive the table.
  WorkerTable(const CoordinationOptions& options, Outbox& outbox) : options_(options), outbox_(outbox) {}
  WorkerTable(const WorkerTable&) = delete;
  WorkerTable& operator=(const WorkerTable&) = delete;

  const std::map<std::string, WorkerRecord>& All() const { return workers_; }  // by name
  const WorkerRecord& At(const std::string& name) const { return workers_.at(name); }
  // Null where no worker has this name.
  const WorkerRecord* Find(const std::string& name) const;
  // "" where no worker has this connection.
  std::string NameOf(ConnectionId connection) const;

  // True where the worker is connected, and was heard of a moment ago.
  bool IsHeard(const WorkerRecord& worker) const;
  // True where the worker is heard of, and may get new ranks.
  bool IsUsable(const WorkerRecord& worker) const;
  std::string StateOf(const WorkerRecord& worker) const;  // "ready" "suspect" "draining" "lost"

  // The usable workers that have the labels of `wanted`: with their free slots, where they have any; with all their
  // slots.
  std::vector<FreeSlots> FreeFor(const Resources& wanted) const;
  std::vector<FreeSlots> AllFor(const Resources& wanted) const;

  // Errors: kInvalidArgument (no name, no slots), kAlreadyExists (another daemon of this name is connected and heard
  // of).
  absl::Status CheckName(const WorkerHello& hello) const;
  // The daemon is connected from now on.
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

  void Heard(const std::string& name) { workers_.at(name).last_heard = options_.Now(); }
  void SetDraining(const std::string& name, bool draining) { workers_.at(name).draining = draining; }
  void SetOutputId(const std::string& name, const std::string& id) { workers_.at(name).hello.set_output_id(id); }
  void Hold(const std::string& name, uint64_t job, int slots) { workers_.at(name).held[job] = slots; }
  void Release(const std::string& name, uint64_t job);
  // The coordinator stood still for so long, in which it could hear of no worker.
  void ForgivePause(absl::Duration pause);

  // The workers that were silent for so long that they are lost, with that time.
  std::vector<std::pair<std::string, absl::Duration>> Silent() const;

 private:
  const CoordinationOptions& options_;
  Outbox& outbox_;
  std::map<std::string, WorkerRecord> workers_;
  std::map<ConnectionId, std::string> name_of_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_WORKER_TABLE_H_
