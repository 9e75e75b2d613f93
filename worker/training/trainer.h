// Training, one step at a time: data, forward, backward, gradients, report, optimizer.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(plan, &communicator, &parameters, data_root, registry));
//   while (!trainer->done()) {
//     ADJOIN_ASSIGN_OR_RETURN(StepReport report, trainer->RunStep());        // on every rank
//   }
//
// One thread.
#ifndef ADJOIN_WORKER_TRAINING_TRAINER_H_
#define ADJOIN_WORKER_TRAINING_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "planner/plan/step_sums.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/span_recorder.h"
#include "primitives/tape.h"
#include "proto/plan.pb.h"
#include "worker/samples/field_source.h"
#include "worker/samples/shard_reader.h"
#include "worker/trace/slow_parts.h"
#include "worker/training/gradient_norm.h"
#include "worker/training/layer_timing.h"
#include "worker/training/optimizer.h"
#include "worker/training/session_activity.h"
#include "worker/training/slow_step.h"
#include "worker/training/validation.h"

namespace adjoin {

struct StepReport {
  int64_t step = 0;          // from 1
  int64_t epoch = 0;         // from 1
  int64_t samples = 0;       // of this step's batch, over all ranks
  double loss = 0;           // of the batch before the step, over all ranks
  double learning_rate = 0;  // of the step
  // Before clipping, over all ranks; absent unless the job clips or scales its loss (precision.loss_scale).
  std::optional<double> gradient_norm;
  bool skipped = false;        // the scaled gradients were not finite: the parameters are as before the step
  double compute_seconds = 0;  // this rank's: T_comp
  double sync_seconds = 0;     // this rank's, waiting for and moving data: T_sync
  int64_t bytes_sent = 0;      // by this rank
  bool stop_asked = false;     // by any rank: all of them stop after this step
  StepWords words = {};        // of all ranks, added up
  int64_t traces_asked = 0;    // how many steps rank 0 wants traced: the next ones
  // How long each layer took; absent: the step was not measured (Train.measure_layers_every).
  std::optional<MeasuredLayers> layers = std::nullopt;
  std::optional<SlowParts> slow = std::nullopt;  // of a measured step, on rank 0 (SlowStep::AfterStep)
};

// This rank's traffic in all steps of one program.
struct ProgramTraffic {
  int64_t steps = 0;
  int64_t bytes = 0;
};

class Trainer {
 public:
  ~Trainer() {
    if (communicator_ != nullptr && communicator_->recorder() == &recorder_) communicator_->set_recorder(nullptr);
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // `plan`, `communicator` and `parameters` must outlive it, and so must `activity`, which is told when it reads files
  // and may be null. `planning`: of the validation (Evaluator::Create).
  // Errors: kInvalidArgument (nothing to train, a data set with no step in it, an optimizer that is not supported); as
  // Network::Create, GradientSync::Create, ShardReader::Create.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const Plan& plan, Communicator* communicator,
                                                         Parameters* parameters, const DataFolder& data,
                                                         const LayerRegistry& registry,
                                                         SessionActivity* activity = nullptr,
                                                         const ExtentPlanning& planning = {});

  int64_t total_steps() const { return total_steps_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t steps_done() const { return step_; }
  bool done() const { return step_ >= total_steps_ || (validation_ != nullptr && validation_->should_stop()); }

  // Resumes after `steps_done` steps, before the first RunStep: parameters (buffers too) and the optimizer's states
  // must be as they were after them. The position in the data follows from the step, and so do all random numbers.
  void Resume(int64_t steps_done) { step_ = resumed_at_ = steps_done; }
  TrainOptimizer& optimizer() { return *optimizer_; }

  // Null where the job does not validate.
  Validation* validation() { return validation_.get(); }
  // True where a validation (validation()->Run(steps_done())) is due before the next step.
  bool validation_due() const {
    return validation_ != nullptr && validation_->DueAfter(step_, steps_per_epoch_, total_steps_);
  }

  // Collective. `stop_asked`: this rank was asked to stop. Errors: those of the data, a layer or a movement;
  // kOutOfRange where the loss is not finite (on every rank alike, names the step and where the first such value is;
  // the parameters are those before the step, running statistics may be those after it), or where a job clips the norm
  // of the gradients and it is not finite. A job that scales its loss skips such a step instead, and ends with
  // kOutOfRange after kMostSkipped of them in a row. `words`: this rank's, for StepReport::words. `traces_asked`: rank
  // 0's, for StepReport::traces_asked; at most StepSums::kMostTraced, and 0 on the other ranks.
  absl::StatusOr<StepReport> RunStep(bool stop_asked = false, const StepWords& words = {}, int64_t traces_asked = 0);

  // While it records, and the communicator with it, every step is recorded.
  SpanRecorder& recorder() { return recorder_; }
  // By the index that spans have.
  std::vector<std::string> layer_names() const;

  static constexpr int kMostSkipped = 100;

  // Sums a few numbers (Network::SumOverRanks). Collective; beside the steps.
  absl::StatusOr<std::vector<double>> SumOverRanks(const std::vector<double>& numbers);

  // Returns T_comp and T_sync of one step: the mean over ranks and RunSteps so far. Collective.
  struct MeanTimes {
    double compute_seconds = 0;
    double sync_seconds = 0;
  };
  absl::StatusOr<MeanTimes> MeanTimesOverRanks();

  // Largest local tensor per layer, in elements (Network::peak_elements), over all programs.
  std::map<std::string, int64_t> PeakElements() const;
  const std::map<std::string, ProgramTraffic>& traffic() const { return traffic_; }

 private:
  Trainer() = default;
  absl::Status CountSteps(const Train& train);
  absl::StatusOr<std::map<std::string, at::Tensor>> ReadBatch(const Network& network, int64_t epoch, int64_t first);
  // One part of a step's batch: as many samples as its network takes.
  struct Part {
    Network* network = nullptr;
    int64_t first = 0;  // its first sample's position in the epoch
  };
  std::vector<Part> PartsOf(int64_t first) const;
  // Tells the part's network its position in the job, for its random numbers.
  void SetPlace(const Part& part) const;
  // A part between its forward pass and its backward pass.
  struct InFlight {
    std::unique_ptr<Tape> tape;
    at::Tensor loss;  // this rank's share, undefined where it has none
  };
  // `samples`: of the whole batch.
  absl::StatusOr<InFlight> Forward(const Part& part, int64_t epoch, int64_t samples);
  // Adds to the gradients. Returns this rank's share of the loss, undefined where it has none.
  at::Tensor Backward(const Part& part, InFlight running);
  // The passes of all parts, in this rank's order. Returns its shares of the loss, by part.
  absl::StatusOr<std::vector<at::Tensor>> RunPasses(const std::vector<Part>& parts, int64_t epoch, int64_t samples);
  // What the host reads of this rank's step, in one go.
  struct Read {
    double loss = 0;          // the sum of `shares`, by part
    double squared_norm = 0;  // of the gradients, where the job clips or scales its loss
  };
  absl::StatusOr<Read> ReadStep(const std::vector<Part>& parts, const std::vector<at::Tensor>& shares) const;
  // Gradients, loss and norm over all ranks.
  // `mine`: the counts and words of this rank.
  absl::Status AddUp(const std::vector<Part>& parts, int64_t epoch, StepSums mine, StepReport& report);
  absl::Status NotFinite(const std::vector<Part>& parts, int64_t epoch, double loss);
  // Clips the gradients, or finds that they are not finite.
  absl::Status JudgeGradients(const std::vector<Part>& parts, StepReport& report);
  void Account(const Part& part, int64_t passes, int64_t bytes_before);

  SessionActivity* activity_ = nullptr;
  Communicator* communicator_ = nullptr;
  SpanRecorder recorder_;
  Parameters* parameters_ = nullptr;
  std::unique_ptr<ShardReader> data_;
  std::unique_ptr<Network> full_;  // for a micro-batch; null where the data set is smaller
  std::unique_ptr<Network> tail_;  // for the samples left over at an epoch's end; null where there are none
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<TrainOptimizer> optimizer_;
  std::unique_ptr<LayerTiming> timing_;    // null where the job does not measure its layers
  std::unique_ptr<SlowStep> slow_;         // likewise
  std::optional<GradientNorm> gradients_;  // where the job clips or scales its loss
  double clip_norm_ = 0;
  double loss_scale_ = 0;                   // 0: the loss is not scaled
  int skipped_ = 0;                         // steps in a row
  std::unique_ptr<Validation> validation_;  // where the job validates
  int64_t in_flight_ = 1;                   // parts that this rank has in the network (planner/plan/pass_order.h)
  int64_t batch_ = 0;
  int64_t epoch_samples_ = 0;  // samples that an epoch trains on
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  int64_t step_ = 0;
  int64_t resumed_at_ = 0;
  double compute_seconds_ = 0;  // all steps'
  double sync_seconds_ = 0;     // likewise
  std::map<std::string, ProgramTraffic> traffic_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_TRAINER_H_
