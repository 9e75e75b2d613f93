// Writes a job's checkpoints while it trains: at a step's end each rank copies its tensors, a thread of each rank
// writes and syncs them, and the ranks tell each other in their later steps how far they are.
//
//   CheckpointWriter writer(options);                                                        // on every rank
//   while (!trainer->done()) {
//     ADJOIN_ASSIGN_OR_RETURN(StepReport report, trainer->RunStep(false, writer.Words()));
//     writer.AfterStep(report.words, moment, [&] { return tensors; });
//   }
//   ADJOIN_RETURN_IF_ERROR(writer.Finish(/*write=*/false, moment, tensors, sums));           // ends what was begun
//
// All ranks decide alike, since they decide by the same numbers: the job's, the step's, and sums over the ranks. Only
// rank 0's clock counts, and the others learn its time by such a sum. At most one checkpoint is in flight. Where
// another is due meanwhile, it is taken after the first step that finds none in flight. Only the one of a best
// validation is copied at once and waits in memory for its turn (a better one replaces it), so there are at most two
// copies, and one without keep_best. A checkpoint that cannot be written (a full disk, no memory, a file server that is
// gone) costs a line in the log and nothing else. One thread; the work on the other thread owns all that it uses.
#ifndef ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_WRITER_H_
#define ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "worker/checkpoint/background_task.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/checkpoint_tensor.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/rank_sums.h"

namespace adjoin {

class CheckpointWriter {
 public:
  struct Options {
    std::shared_ptr<FileSystem> files;
    Checkpoint spec;  // `dir` is not empty
    Retention retention;
    int rank = 0;
    int ranks = 1;
    Manifest job;  // common to all checkpoints: job, job_name, plan_hash, seed, and in `name` epoch and tag
    std::vector<CheckpointName> damaged;  // on rank 0: those that ResumeFromCheckpoint found damaged; they are removed
    // Called on rank 0 before a manifest is written; returns an error where a later attempt has begun. It runs on
    // another thread and owns what it uses: on a dead file system it may outlive the writer.
    std::function<absl::Status()> check_latest;
    // How long Finish waits for the disk in each half of a checkpoint: the ranks' files, the manifest. No rank waits
    // longer than a fraction of it for the others.
    absl::Duration patience = absl::Minutes(15);
    std::function<void(const std::string&)> log;
    std::function<absl::Duration()> now;  // a monotonic clock
  };

  // The end of a step; the same on all ranks, but for the metrics.
  struct Moment {
    int64_t step = 0;
    int64_t data_epoch = 0;
    int64_t step_in_epoch = 0;
    std::map<std::string, double> numbers;     // as Manifest::numbers
    std::map<std::string, double> validation;  // metrics of a validation after this step
    bool best = false;                         // that validation was the best so far
    std::string metrics;                       // on rank 0: the file of metrics; "": none
    int64_t metrics_bytes = 0;                 // how much of that file belongs to the checkpoint
  };
  using Tensors = std::function<std::vector<CheckpointTensor>()>;

  explicit CheckpointWriter(Options options);
  ~CheckpointWriter();  // gives up what is in flight
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Returns the numbers that this rank adds to the sums of the next step.
  std::array<double, 2> Words();
  // Called after each step, with the sums over all ranks of their Words().
  void AfterStep(const std::array<double, 2>& words, const Moment& moment, const Tensors& tensors);

  // Waits until the checkpoint in flight is durable. With `write` also writes one of this moment, unless there is one.
  // Where a rank's disk does not answer for `patience`, all ranks give this checkpoint up, and those that would follow.
  // Collective. Errors: those of the sums. last_durable() tells what could be written.
  absl::Status Finish(bool write, const Moment& moment, const Tensors& tensors, const RankSums& sums);

  // The step of the newest checkpoint of this attempt that all ranks know to be durable; absent: none yet.
  std::optional<int64_t> last_durable() const { return last_durable_; }

 private:
  enum class Phase {
    kIdle,
    kFiles,     // every rank writes its file
    kManifest,  // rank 0 finishes the checkpoint, or removes it
  };
  struct InFlight;
  // The contents of a checkpoint to be written.
  struct Snapshot {
    Moment moment;
    std::vector<CheckpointTensor> tensors;  // their names and homes only
    std::vector<CheckpointTensor> mine;     // copies of the boxes that this rank writes
    absl::Status taken;                     // an error where there was no memory for the copies
  };

  bool Due(const Moment& moment) const;
  Snapshot Take(const Moment& moment, const Tensors& tensors) const;
  void Begin(Snapshot snapshot);
  void BeginWaiting();
  void BeginManifest(bool fine);
  void Advance(double told);
  void NoteResult();
  void WriteFiles(Snapshot snapshot);
  absl::StatusOr<bool> AwaitPhase(const RankSums& sums);
  void GiveUp(bool mine, double ranks);
  void Log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  const Options options_;
  Phase phase_ = Phase::kIdle;
  bool wanted_ = false;
  std::optional<Snapshot> waiting_;  // the snapshot of a best validation
  absl::Duration last_begun_;
  CheckpointName name_;  // names the checkpoint in flight, or the last one
  bool fine_ = false;    // all ranks have written their files
  std::shared_ptr<InFlight> in_flight_;
  std::optional<absl::Status> result_;  // this rank's result of the phase
  std::optional<int64_t> last_durable_;
  BackgroundTask task_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_WRITER_H_
