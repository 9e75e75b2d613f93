// The serial functions of a model in evaluation mode, as PyTorch's `eval()`: batch norm by its running statistics, and
// nothing drawn at random.
//
//   SerialFunctions functions = InEvaluation(BuiltinSerialFunctions());
#ifndef ADJOIN_VERIFY_EVALUATION_FUNCTIONS_H_
#define ADJOIN_VERIFY_EVALUATION_FUNCTIONS_H_

#include "layers/serial_functions.h"
#include "proto/job.pb.h"

namespace adjoin {

// Replaces those of `norm`, `dropout` and `noise`.
SerialFunctions InEvaluation(const SerialFunctions& functions);

// Takes the dropout of weights from layers that attend. `spec` has no blocks of layers.
void DropNoWeights(JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_EVALUATION_FUNCTIONS_H_
