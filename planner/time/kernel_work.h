// What one call of a layer's kernel on a rank has to do, in the words of a table of rates (proto/rates.proto).
//
//   const KernelWork work = WorkOf(layer, sizes);
//   work.kind;    // "conv"
//   work.size;    // what distinguishes one call from another of that kind
//
// The kinds and their sizes, all of local tensors:
//
//   conv, conv.columns, conv.grouped, conv.transposed
//                          spatial dims, channels read, channels returned, cells of the kernel, positions of the input
//                          and of the output in all samples, groups. "columns": LibTorch multiplies a matrix of
//                          columns there instead of calling oneDNN (layer_memory.h)
//   linear                 rows, features read, features returned
//   attention              batch, queries, keys, features of the input, features of the heads here, heads here
//   window_attention       positions, channels, cells of a window, heads
//   norm.batch, norm.group, norm.layer
//                          elements, elements that are normalised together
//   activation, activation.gelu, activation.tanh, activation.sigmoid, activation.silu, activation.costly, prelu,
//   dropout, noise, add, multiply, copy, softmax, local_response_norm
//                          elements of the output, inputs. "activation": relu and what is as cheap; "costly": others
//   pool.max, pool.avg, upsample.copy, upsample.linear
//                          elements read, elements returned, cells that an output reads
//   concat                 elements of the output, inputs
//   embedding              rows, features, entries of the table
//   loss.classes, loss.dice, loss
//                          elements of the prediction, its classes
//   sum                    elements that are added to others in place
//   update.sgd, update.momentum, update.adam, update.other
//                          elements of one parameter
//   view                   none: nothing is computed
//
// "conv.first", "linear.first", ...: of a layer whose input needs no gradient.
#ifndef ADJOIN_PLANNER_TIME_KERNEL_WORK_H_
#define ADJOIN_PLANNER_TIME_KERNEL_WORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/memory/layer_memory.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"

namespace adjoin {

struct KernelWork {
  std::string kind;
  DType type = DType::kFloat32;
  std::vector<int64_t> size;
  double flops = 0;    // forward
  double bytes = 0;    // that are read and written, forward
  bool empty = false;  // the rank has none of the output: the kernel is not called
};

// `layer`: defaults filled in or not. For a layer of one's own: as a copy of its inputs.
KernelWork WorkOf(const Layer& layer, const LayerSizes& sizes);

// `sizes.input[0]`: the prediction.
KernelWork WorkOfLoss(const Loss& loss, const LayerSizes& sizes);

// The update of one parameter.
KernelWork WorkOfUpdate(const Optimizer& optimizer, int64_t elements, DType type);

// One tensor added to another in place.
KernelWork WorkOfSum(int64_t elements, DType type);

// Ends the kind of a layer whose input needs no gradient.
inline constexpr char kFirstLayer[] = ".first";

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_KERNEL_WORK_H_
