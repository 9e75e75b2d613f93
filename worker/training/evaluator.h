// Loss and metrics on a data set, computed over all ranks: at the end of training, during it, or alone.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto evaluator,
//                           Evaluator::Create(plan, "evaluate", &communicator, &parameters, data_root, registry));
//   while (!evaluator->done()) ADJOIN_RETURN_IF_ERROR(evaluator->RunStep());    // on every rank
//   evaluator->report().loss;
//
// One thread.
#ifndef ADJOIN_WORKER_TRAINING_EVALUATOR_H_
#define ADJOIN_WORKER_TRAINING_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "planner/checks/metric_rule.h"
#include "primitives/comm/communicator.h"
#include "proto/plan.pb.h"
#include "worker/samples/field_source.h"
#include "worker/samples/shard_reader.h"
#include "worker/training/evaluation_report.h"
#include "worker/training/extent_networks.h"
#include "worker/training/session_activity.h"

namespace adjoin {

class Evaluator {
 public:
  // `program`: "evaluate" or "validate"; it and its "_tail" set the data set and the batches. The metrics are those of
  // planner/checks/metric_rule.h. `communicator` and `parameters` must outlive it, and so must `activity`, which is
  // told when it reads files and may be null. `planning`: for a data set with whole volumes of different extents, which
  // are taken one at a time. Errors: as Network::Create, ShardReader::Create and ExtentNetworks::Create.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(const Plan& plan, const std::string& program,
                                                           Communicator* communicator, Parameters* parameters,
                                                           const DataFolder& data, const LayerRegistry& registry,
                                                           SessionActivity* activity = nullptr,
                                                           const ExtentPlanning& planning = {});

  int64_t total_steps() const { return total_steps_; }
  int64_t steps_done() const { return step_; }
  bool done() const { return step_ >= total_steps_; }

  // Runs the next batch, without gradients. Collective. `stop_asked`: this rank was asked to stop. Errors: those of the
  // data, a layer or a movement.
  absl::Status RunStep(bool stop_asked = false);
  // True where any rank was asked to stop before the last step: all of them stop after it.
  bool stop_asked() const { return stop_asked_; }

  // The result of the batches done, the same on every rank.
  EvaluationReport report() const;

  // Begins with the first batch again, with the parameters as they are now.
  void Restart();

 private:
  explicit Evaluator(EvaluationNumbers numbers) : numbers_(std::move(numbers)) {}
  struct Batch {
    Network* network;
    int64_t first;
  };
  absl::StatusOr<Batch> NextBatch();
  absl::StatusOr<std::vector<double>> RunBatch(Network& network, int64_t first, bool stop_asked);
  void AddBatch(const ProgramPlan& program, const std::vector<double>& sums);

  const EvaluationNumbers numbers_;
  double range_ = 1;  // the targets' range, for "psnr"
  std::unique_ptr<ShardReader> data_;
  std::string dataset_;
  int64_t batch_ = 0;
  int losses_ = 0;
  std::unique_ptr<ExtentNetworks> own_;  // for samples with extents of their own; then the next two are null
  std::unique_ptr<Network> full_;
  std::unique_ptr<Network> tail_;  // for a smaller last batch; null where there is none
  int64_t total_steps_ = 0;
  int64_t step_ = 0;
  int64_t samples_ = 0;
  bool stop_asked_ = false;
  SessionActivity* activity_ = nullptr;
  std::vector<double> totals_;  // at the positions of numbers_; a mean loss has its weighted sum and its weight
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_EVALUATOR_H_
