// The calls of kernels that a calibration measures: layers of a small job each, of sizes that parts of networks have.
#ifndef ADJOIN_WORKER_CALIBRATION_KERNEL_CASES_H_
#define ADJOIN_WORKER_CALIBRATION_KERNEL_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace adjoin {

struct KernelCase {
  std::string layer = {};           // its op in a job: "conv { ... }"
  std::vector<int64_t> shape = {};  // of the input, with the batch
  std::string type = "float32";
  int inputs = 1;              // of that shape each
  bool first = false;          // its input needs no gradient
  bool indices = false;        // its input is int64
  std::string loss = {};       // instead of a layer: the kind of the loss
  std::string optimizer = {};  // instead of a layer: `sgd { lr: 0.1 }`, of a parameter with shape[0] elements
  bool sum = false;            // instead of a layer: shape[0] elements added in place
};

std::vector<KernelCase> KernelCases();

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CALIBRATION_KERNEL_CASES_H_
