#include "worker/training/layer_timing.h"

#include <algorithm>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "layers/rules/find_program.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_device.h"
#include "primitives/to_device.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {
namespace {

// Empty on the ranks that the result does not go to.
absl::StatusOr<std::vector<double>> Brought(Movement& movement, const std::vector<double>& mine,
                                            const at::Device& device) {
  at::NoGradGuard no_grad;
  try {
    at::Tensor here = at::empty({static_cast<int64_t>(mine.size())}, at::kDouble);
    std::copy(mine.begin(), mine.end(), here.data_ptr<double>());
    const at::Tensor found = movement.Forward(ToDevice(here, device)).to(at::kCPU);
    return std::vector<double>(found.data_ptr<double>(), found.data_ptr<double>() + found.numel());
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayerTiming>> LayerTiming::Create(const Plan& plan, Communicator* communicator) {
  const uint64_t every = plan.spec().train().measure_layers_every();
  const ProgramPlan* program = FindProgram(plan, "train");
  if (program == nullptr) program = FindProgram(plan, "train_tail");
  if (every == 0 || program == nullptr) return nullptr;
  std::unique_ptr<LayerTiming> timing(new LayerTiming);
  timing->communicator_ = communicator;
  timing->every_ = every;
  for (const LayerPlan& layer : program->layer()) timing->names_.push_back(layer.name());
  const std::vector<int64_t> numbers = {LayerTimeNumbers::Count(timing->layers())};
  ADJOIN_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({communicator->size()}));
  const Distribution first = Distribution::Of(Layout::Owner(numbers, DType::kFloat64, 0));
  const auto create = [&](ReduceOp reduce, int64_t id, std::string name) -> absl::StatusOr<std::shared_ptr<Movement>> {
    ADJOIN_ASSIGN_OR_RETURN(const Layout partial,
                            Layout::Create(numbers, DType::kFloat64, mesh, {Placement::Partial(reduce)}));
    return Movement::Create(communicator, Distribution::Of(partial), first,
                            {.id = id, .name = std::move(name), .differentiable = false});
  };
  ADJOIN_ASSIGN_OR_RETURN(timing->sum_, create(ReduceOp::kSum, kLayerTimesSum, "layer_times.sum"));
  ADJOIN_ASSIGN_OR_RETURN(timing->most_, create(ReduceOp::kMax, kLayerTimesMost, "layer_times.most"));
  return timing;
}

absl::StatusOr<MeasuredLayers> LayerTiming::Collect(const std::vector<LayerSeconds>& mine, double step) {
  const std::vector<double> numbers = LayerTimeNumbers::ToVector(mine, step);
  const at::Device device = TensorDeviceOf(communicator_->memory());
  ADJOIN_ASSIGN_OR_RETURN(std::vector<double> sums, Brought(*sum_, numbers, device));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> most, Brought(*most_, numbers, device));
  MeasuredLayers times;
  if (sums.size() != numbers.size() || most.size() != numbers.size()) return times;
  for (double& sum : sums) sum /= communicator_->size();
  const LayerTimeNumbers::Parts mean = LayerTimeNumbers::FromVector(sums);
  const LayerTimeNumbers::Parts longest = LayerTimeNumbers::FromVector(most);
  for (size_t i = 0; i < names_.size(); ++i) {
    times.layer.push_back({names_[i], mean.layers[i], longest.layers[i], longest.sums[i]});
  }
  times.mean_step = mean.step;
  times.longest_step = longest.step;
  return times;
}

}  // namespace adjoin
