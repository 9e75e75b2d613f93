// Brings parameters together on rank 0, one at a time, to write them to a file.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto collect, ParameterCollect::Create(plan, &communicator));
//   for (int i = 0; i < parameters.size(); ++i) {
//     ADJOIN_ASSIGN_OR_RETURN(at::Tensor whole, collect->Collect(i, parameters.tensor(i)));   // on every rank
//     if (rank == 0) writer.Append(parameters.name(i), whole);
//   }
#ifndef ADJOIN_LAYERS_NETWORK_PARAMETER_COLLECT_H_
#define ADJOIN_LAYERS_NETWORK_PARAMETER_COLLECT_H_

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/movement.h"
#include "proto/plan.pb.h"

namespace adjoin {

class ParameterCollect {
 public:
  // `communicator` must outlive it. Errors: as Movement::Create.
  static absl::StatusOr<std::unique_ptr<ParameterCollect>> Create(const Plan& plan, Communicator* communicator);

  // `local`: this rank's block of the home of parameter `index`: its value, its gradient after GradientSync, or a
  // tensor of an optimizer's state. Returns the whole tensor on rank 0, one of shape (0, ..., 0) elsewhere. Collective.
  // Errors: what a movement fails with.
  absl::StatusOr<at::Tensor> Collect(int index, const at::Tensor& local);

 private:
  ParameterCollect() = default;
  std::vector<std::shared_ptr<Movement>> movements_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_PARAMETER_COLLECT_H_
