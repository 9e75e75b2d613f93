// A loss of the job on whole tensors, as torch.nn.functional has it: the serial side of a comparison.
//
//   at::Tensor target = *DrawTarget(spec, field, prediction, generator);
//   at::Tensor loss = SerialLoss(spec, prediction, target);       // times Loss.weight
#ifndef ADJOIN_LAYERS_LOSS_SERIAL_LOSS_H_
#define ADJOIN_LAYERS_LOSS_SERIAL_LOSS_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "proto/job.pb.h"

namespace adjoin {

// Dice is 1 - the mean over classes of (2 sum(p t) + smooth) / (sum p + sum t + smooth), over the whole batch.
// Throws c10::Error as LibTorch does.
// `variance`: the output of Loss.variance.
at::Tensor SerialLoss(const Loss& spec, const at::Tensor& prediction, const at::Tensor& target,
                      const at::Tensor& variance = {});

// What the loss can be compared with, of the field's shape: classes below the prediction's (some of them
// Loss.ignore_index), probabilities, counts, or normal numbers.
at::Tensor DrawTarget(const Loss& spec, const Field& field, const at::Tensor& prediction, at::Generator generator);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_SERIAL_LOSS_H_
