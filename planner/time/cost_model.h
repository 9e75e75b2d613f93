// How long a rank takes for what a plan gives it to do: kernels, movements, updates. From a table of rates that was
// measured on a kind of node (proto/rates.proto).
//
//   ADJOIN_ASSIGN_OR_RETURN(const CostModel model, CostModel::Create(rates));   // or CostModel::Default()
//   const CostModel::KernelSeconds seconds = model.OfLayer(layer, sizes, /*input_gradient=*/true, /*trained=*/true);
//   seconds.forward;
//
// Seconds are finite, 0 or more. A kind of kernel that the table lacks is taken from one that is like it: another type
// of numbers, then a copy of as many bytes. Pure: no LibTorch; any thread.
#ifndef ADJOIN_PLANNER_TIME_COST_MODEL_H_
#define ADJOIN_PLANNER_TIME_COST_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "planner/memory/layer_memory.h"
#include "planner/time/kernel_curve.h"
#include "planner/time/kernel_work.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/traffic.h"
#include "proto/job.pb.h"
#include "proto/rates.pb.h"

namespace adjoin {

class CostModel {
 public:
  // Errors: as CheckRates.
  static absl::StatusOr<CostModel> Create(const RateTable& rates);
  // The model of the table in the repository (planner/time/rates).
  static const CostModel& Default();

  struct KernelSeconds {
    double forward = 0;
    double backward = 0;
  };
  // One rank's kernel of a layer, its call included. `sizes`: as planner/memory/layer_memory.h has them.
  // `input_gradient`: the backward pass computes that of the inputs; `trained`: likewise those of the parameters. Where
  // it computes neither, `backward` is 0.
  KernelSeconds OfLayer(const Layer& layer, const LayerSizes& sizes, bool input_gradient, bool trained) const;
  // `sizes.input[0]`: the prediction, as the rank has it.
  KernelSeconds OfLoss(const Loss& loss, const LayerSizes& sizes) const;
  // One execution, forward or adjoint, on a rank that does this. `lane`: "memory" between ranks of a node, "network"
  // between nodes; a table that lacks it has the other's rates.
  double OfMovement(const RankTraffic& traffic, const std::string& lane = "memory") const;
  // The update of `tensors` parameters with `elements` at home on this rank together.
  double OfUpdate(const Optimizer& optimizer, int64_t elements, int64_t tensors = 1,
                  DType type = DType::kFloat32) const;
  // One tensor added to another in place, as gradients of a value that several layers read.
  double OfAdd(int64_t elements, DType type) const;
  // A call through LibTorch's autograd, whatever it does.
  double OfCall() const { return launch_seconds_; }
  // Once in a step, whatever the network is.
  double OfStep() const { return step_seconds_; }

  // For people: whose rates these are.
  const std::string& machine() const { return machine_; }

 private:
  struct Curves {
    KernelCurve forward, backward;
  };
  const Curves* Find(const std::string& kind, DType type) const;
  KernelSeconds OfWork(const KernelWork& work) const;

  std::map<std::pair<std::string, DType>, Curves> curves_;
  std::map<std::string, LaneRate> lanes_;
  double launch_seconds_ = 0, step_seconds_ = 0;
  std::string machine_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_COST_MODEL_H_
