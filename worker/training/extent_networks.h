// The networks for whole volumes of different extents (planner/spec/whole_volumes.h), one at a time.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto networks,
//                           ExtentNetworks::Create(plan, "predict", planning, &communicator, &parameters, registry,
//                                                  reader.get(), activity));
//   for (int64_t step = 0; step < reader->samples(); ++step) {
//     ADJOIN_ASSIGN_OR_RETURN(const ExtentNetworks::Step next, networks->At(step));      // on every rank
//     reader->Read(next.network->program(), /*epoch=*/0, next.sample);
//   }
//
// Samples of the same extents follow each other, in the order in which their extents come first; the program for them
// is planned when the first one's turn comes, and forgotten with its network when the last one is done. All ranks plan
// the same, from the plan and from the files' extents, which the plan's hash covers. One thread.
#ifndef ADJOIN_WORKER_TRAINING_EXTENT_NETWORKS_H_
#define ADJOIN_WORKER_TRAINING_EXTENT_NETWORKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "layers/rules/layer_rule.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/transport/transport.h"
#include "proto/plan.pb.h"
#include "worker/samples/shard_reader.h"
#include "worker/training/session_activity.h"

namespace adjoin {

// What a rank needs to plan for itself. Whatever it points to outlives those who have it.
struct ExtentPlanning {
  Transport* transport = nullptr;
  LocalMemory* memory = nullptr;
  const LayerRules* rules = nullptr;
  Communicator::Options options = {};  // of the job's communicator
  // How many groups of samples have begun: of all that have a copy of this, so that their communicators differ.
  std::shared_ptr<int> begun = std::make_shared<int>(0);
};

class ExtentNetworks {
 public:
  // `data` is of the program's data set, which has whole volumes. All outlive it; `activity` may be null.
  static absl::StatusOr<std::unique_ptr<ExtentNetworks>> Create(const Plan& plan, const std::string& program,
                                                                const ExtentPlanning& planning,
                                                                Communicator* communicator, Parameters* parameters,
                                                                const LayerRegistry& registry, ShardReader* data,
                                                                SessionActivity* activity);
  ~ExtentNetworks();
  ExtentNetworks(const ExtentNetworks&) = delete;
  ExtentNetworks& operator=(const ExtentNetworks&) = delete;

  struct Step {
    int64_t sample;
    Network* network;  // valid until At is called with another step
  };
  // Steps go up by one, or begin with 0 again. Errors: kInvalidArgument, with the file (the network does not take its
  // extents); as Network::Create and ShardReader::UseFor.
  absl::StatusOr<Step> At(int64_t step);
  // Forgets the last network, as after the last step.
  void End();

 private:
  ExtentNetworks(Plan plan, std::string program, const ExtentPlanning& planning, Communicator* communicator,
                 Parameters* parameters, const LayerRegistry& registry, ShardReader* data, SessionActivity* activity)
      : plan_(std::move(plan)),
        program_(std::move(program)),
        planning_(planning),
        main_(communicator),
        parameters_(parameters),
        registry_(registry),
        data_(data),
        activity_(activity) {}
  void Order();
  absl::Status Begin(size_t group);

  const Plan plan_;
  const std::string program_;
  const ExtentPlanning planning_;
  Communicator* const main_;
  Parameters* const parameters_;
  const LayerRegistry& registry_;
  ShardReader* const data_;
  SessionActivity* const activity_;
  std::vector<std::vector<int64_t>> groups_;    // samples of the same extents
  std::vector<std::pair<size_t, int64_t>> at_;  // by step: its group, its sample
  size_t group_ = 0;                            // that network_ is for
  std::unique_ptr<Communicator> communicator_;  // the group's
  std::unique_ptr<Network> network_;            // null where none has begun
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_EXTENT_NETWORKS_H_
