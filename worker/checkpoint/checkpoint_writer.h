// Writes a job's checkpoints beside its training: a step's end copies the tensors, a thread of each rank writes and syncs
// them, and the ranks tell each other with their later steps how far they are.
//
//   CheckpointWriter writer(options);                                                        // on every rank
//   while (!trainer->done()) {
//     ADJOIN_ASSIGN_OR_RETURN(StepReport report, trainer->RunStep(false, writer.Words()));
//     writer.AfterStep(report.words, moment, [&] { return tensors; });
//   }
//   ADJOIN_RETURN_IF_ERROR(writer.Finish(/*write=*/false, moment, tensors, sums));           // all that was begun is done
//
// All ranks take the same turns, since all decide by the same numbers: those of the job, the step's, and sums over the ranks.
// No rank's clock is asked but rank 0's, and what it says comes by such a sum. One checkpoint is in flight at most; where
// another is due meanwhile, it is taken after the first step that finds none; only that of a best validation is copied at
// once and waits, in memory, for its turn (a better one takes its place): so there are two copies at most, and without
// keep_best one. A checkpoint that cannot be written (a full disk, no memory, a file server that is gone) costs a line in the
// log, and no more. One thread; what it leaves to another uses nothing of it.
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
    Checkpoint spec;     // `dir` is not empty
    Retention retention;
    int rank = 0;
    int ranks = 1;
    Manifest job;        // what all its checkpoints say: job, job_name, plan_hash, seed, and of `name` epoch and tag
    std::vector<CheckpointName> damaged;  // on rank 0: those that the attempt could not begin from, to be removed
    // On rank 0, before a manifest is written: an error where a later attempt has begun. On another thread, and owns what it
    // uses: on a dead file system it may outlive the writer.
    std::function<absl::Status()> check_latest;
    // How long Finish waits for the disk in each half of a checkpoint: the ranks' files, the manifest. No rank waits longer than
    // a fraction of it for the others.
    absl::Duration patience = absl::Minutes(15);
    std::function<void(const std::string&)> log;
    std::function<absl::Duration()> now;  // of a monotonic clock
  };

  // The end of a step, on all ranks alike but for the metrics.
  struct Moment {
    int64_t step = 0;
    int64_t data_epoch = 0;
    int64_t step_in_epoch = 0;
    std::map<std::string, double> numbers;     // as Manifest::numbers
    std::map<std::string, double> validation;  // of a validation after this very step
    bool best = false;                         // which was the best so far
    std::string metrics;                       // on rank 0: the file, or "" for none, ...
    int64_t metrics_bytes = 0;                 // ... and how much of it belongs to the checkpoint
  };
  using Tensors = std::function<std::vector<CheckpointTensor>()>;

  explicit CheckpointWriter(Options options);
  ~CheckpointWriter();  // gives up what is in flight
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // What this rank has to say with the next step.
  std::array<double, 2> Words();
  // After each step, with the sum over all ranks of what they said with it.
  void AfterStep(const std::array<double, 2>& words, const Moment& moment, const Tensors& tensors);

  // Waits until what is in flight is durable, and with `write` for one of this moment as well, unless there is one. Where a
  // rank's disk does not answer for `patience`, all of them give the checkpoint up, and what was still to come.
  // Collective. Errors: those of the sums. Whether it could be written: last_durable().
  absl::Status Finish(bool write, const Moment& moment, const Tensors& tensors, const RankSums& sums);

  // The step of the newest checkpoint of this attempt that all ranks know to be durable; absent: none yet.
  std::optional<int64_t> last_durable() const { return last_durable_; }

 private:
  enum class Phase {
    kIdle,
    kFiles,     // every rank writes its own
    kManifest,  // rank 0 finishes it, or throws it away
  };
  struct InFlight;
  // What a checkpoint is to hold.
  struct Snapshot {
    Moment moment;
    std::vector<CheckpointTensor> tensors;  // their names and homes only
    std::vector<CheckpointTensor> mine;     // copies of what this rank writes
    absl::Status taken;                     // an error where there was no memory for them
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
  std::optional<Snapshot> waiting_;    // of a best validation
  absl::Duration last_begun_;
  CheckpointName name_;                // of the one in flight
  bool fine_ = false;                  // its files
  std::shared_ptr<InFlight> in_flight_;
  std::optional<absl::Status> result_;  // of this rank's part of the phase
  std::optional<int64_t> last_durable_;
  BackgroundTask task_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_WRITER_H_
