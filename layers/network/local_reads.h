// What a layer reads of its inputs on one rank, from its plan.
//
//   ADJOIN_ASSIGN_OR_RETURN(context.reads, LocalReadsOf(program, layer, rank, device));
#ifndef ADJOIN_LAYERS_NETWORK_LOCAL_READS_H_
#define ADJOIN_LAYERS_NETWORK_LOCAL_READS_H_

#include <map>
#include <vector>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "layers/layer.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Returns, for each input, what is read along each dim of a window (LayerPlan.reading), with its index tensors on
// `device`; nothing for dims that are read as they are. Errors: kInvalidArgument (a plan that cannot be read).
absl::StatusOr<std::vector<std::map<int, LocalReads>>> LocalReadsOf(const ProgramPlan& program, const LayerPlan& layer,
                                                                    int rank, c10::Device device);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_LOCAL_READS_H_
