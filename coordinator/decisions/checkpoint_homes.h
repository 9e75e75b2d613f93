// Where the checkpoints of jobs are: with a job's home, the workers that share the output root of its last attempt.
// Only they can go on from there, so the job waits for them; it leaves them when others could have taken it for long
// and they could not. A job without checkpoints that resumes from those of another job waits for nodes that share the
// root where these are, and has failed when others could have taken it for long. One whose weights are below an output
// root waits for nodes that share that one, for as long as it takes.
//
//   CheckpointHomes homes(options, jobs, workers, outbox);
//   homes.Settle(job);                    // an attempt starts: its workers are the job's home
//   homes.Keep(job);                      // a rank reported a checkpoint: the job stays with its home from now on
//   if (homes.Tick(fail)) ...             // some job has left its home, and may start elsewhere, or has failed
//
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_CHECKPOINT_HOMES_H_
#define ADJOIN_COORDINATOR_DECISIONS_CHECKPOINT_HOMES_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/worker_table.h"
#include "coordinator/placement/assignment.h"

namespace adjoin {

class CheckpointHomes {
 public:
  // All arguments outlive the homes.
  CheckpointHomes(const CoordinationOptions& options, JobTable& jobs, const WorkerTable& workers, Outbox& outbox)
      : options_(options), jobs_(jobs), workers_(workers), outbox_(outbox) {}
  CheckpointHomes(const CheckpointHomes&) = delete;
  CheckpointHomes& operator=(const CheckpointHomes&) = delete;

  // The OutputRoot, as text, of the workers that the job has to run on; "" where any will do.
  std::string HomeOf(const JobRecord& job) const { return job.has_checkpoint ? job.home : InputHomeOf(job); }
  // True where the job could start, with its checkpoints, if nothing else ran.
  bool CouldEverStart(const JobRecord& job) const;
  // True where the job wants to start, and others could take it, but its home could not even if nothing else ran there
  // and its workers that are set aside were back.
  bool LacksHome(const JobRecord& job) const;
  // What the job waits for, for people.
  std::string Reason(const JobRecord& job) const;

  // Call it for a new job: if it resumes from the folder of a job that has checkpoints (checkpoint.resume_from), and a
  // worker is there that sees them, it runs where these are.
  void BeginWhereItResumesFrom(JobRecord& job);
  // Call it when an attempt starts, with its workers in job.attempt.holders.
  void Settle(JobRecord& job);
  // Call it when a rank's progress or end shows that there is a checkpoint.
  void Keep(JobRecord& job);
  // Call it for a job that was restored or retried: the time without its home counts from now on.
  void Return(JobRecord& job);
  // Call it when a worker's output_id becomes known: jobs whose home the worker is alone now have a home of that name.
  void OutputKnown(const std::string& worker, const std::string& output_id);

  // Lets jobs leave their homes, and calls `fail` for those that cannot begin without theirs. True where there was one.
  // Each job is looked at once a second; where jobs and workers are too many for that, each tick goes on where the last
  // one stopped.
  bool Tick(const std::function<void(JobRecord& job, const std::string& why)>& fail);
  void ForgivePause(absl::Duration pause);

 private:
  // What follows when a job was without its home for long. kWaits: nothing, or it has its home.
  enum class WithoutHome { kWaits, kBeginsAnew, kFails };
  WithoutHome Without(const JobRecord& job) const;
  absl::Duration GraceOf(WithoutHome without) const;
  // The nodes that share its home, for people.
  std::string Nodes(const JobRecord& job) const;
  // The OutputRoot, as text, where its weights are, or the checkpoints that it resumes from; "" where it has none
  // there.
  std::string InputHomeOf(const JobRecord& job) const;
  bool CouldStartOn(const JobRecord& job, const std::string& home, const std::vector<FreeSlots>& workers) const;
  void Leave(JobRecord& job);

  const CoordinationOptions& options_;
  JobTable& jobs_;
  const WorkerTable& workers_;
  Outbox& outbox_;
  std::set<uint64_t> homed_;  // jobs that have a checkpoint, or resume from another job's, by number
  std::set<uint64_t> alone_;  // jobs whose home is one worker, of which no output_id was known
  absl::Duration looked_at_ = -absl::InfiniteDuration();  // when the latest round over `homed_` began
  absl::Duration last_round_;                             // how long the one before took
  uint64_t next_ = 0;                                     // where the round goes on; 0: the next one begins
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_CHECKPOINT_HOMES_H_
