// Loss and accuracy on a data set, computed over all ranks.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto evaluator, Evaluator::Create(plan, &communicator, &parameters, data_root, registry));
//   while (!evaluator->done()) ADJOIN_RETURN_IF_ERROR(evaluator->RunStep());    // on every rank
//   evaluator->report().accuracy();
//
// One thread.
#ifndef ADJOIN_WORKER_RUNTIME_EVALUATOR_H_
#define ADJOIN_WORKER_RUNTIME_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network.h"
#include "layers/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "proto/plan.pb.h"
#include "worker/runtime/session_activity.h"
#include "worker/runtime/shard_reader.h"

namespace adjoin {

struct EvaluationReport {
  std::string dataset;
  int64_t samples = 0;
  // Of the batches, weighted by their samples: the mean over the samples where each counts alike; where ignore_index or
  // class_weight say otherwise, a mean of the batches' means, NaN if one has nothing that counts.
  double loss = 0;
  int64_t correct = 0;  // predictions whose largest class is the target, of the first cross_entropy or nll
  int64_t counted = 0;  // its targets, one a sample or one a pixel, without those of ignore_index; 0 without such a loss
  double accuracy() const { return counted > 0 ? static_cast<double>(correct) / static_cast<double>(counted) : 0; }
};

class Evaluator {
 public:
  // `communicator` and `parameters` must outlive it, and so must `activity`, which hears when it reads files; null: nobody
  // asks. Errors: as Network::Create and ShardReader::Create.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(const Plan& plan, Communicator* communicator,
                                                           Parameters* parameters, const std::string& data_root,
                                                           const LayerRegistry& registry,
                                                           SessionActivity* activity = nullptr);

  int64_t total_steps() const { return total_steps_; }
  int64_t steps_done() const { return step_; }
  bool done() const { return step_ >= total_steps_; }

  // The next batch, without gradients. Collective. `stop_asked`: this rank was asked to stop. Errors: what the data, a layer
  // or a movement fails with.
  absl::Status RunStep(bool stop_asked = false);
  // Whether any rank was asked before the last step: all of them stop after it.
  bool stop_asked() const { return stop_asked_; }

  // Of the batches done; the same on every rank.
  const EvaluationReport& report() const { return report_; }

 private:
  Evaluator() = default;

  std::unique_ptr<ShardReader> data_;
  std::unique_ptr<Network> full_;
  std::unique_ptr<Network> tail_;  // of the last batch; null where there is none
  int64_t total_steps_ = 0;
  int64_t step_ = 0;
  bool stop_asked_ = false;
  SessionActivity* activity_ = nullptr;
  EvaluationReport report_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_EVALUATOR_H_
