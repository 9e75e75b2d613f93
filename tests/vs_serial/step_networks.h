// Small networks of sixteen kinds, each with five cuts over 1, 2 and 4 ranks: what predictions of a step are compared
// with.
//
//   for (const StepNetwork& network : StepNetworks()) {
//     for (const std::string& partition : network.partitions) {
//       ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(JobOf(network, partition), {{"data", network.batch}}));
//       const Tensors data = DataOf(plan, network);
#ifndef ADJOIN_TESTS_VS_SERIAL_STEP_NETWORKS_H_
#define ADJOIN_TESTS_VS_SERIAL_STEP_NETWORKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {

// A network, and the ways in which it is cut.
struct StepNetwork {
  std::string name;
  std::string layers;          // lines of a job
  std::string last;            // its last layer
  std::vector<int64_t> shape;  // of a sample
  std::vector<std::string> partitions;
  std::string loss = "cross_entropy";
  std::vector<int64_t> target;  // of a sample
  int64_t batch = 2;
  std::string precision = "float32";
  int64_t classes = 3;
  std::string input_type = {};
  // How far the prediction may be off: kernels of bfloat16 depend on the processor.
  double below = 0.02, above = 0.05;
};

std::vector<StepNetwork> StepNetworks();

// "[1, 2, 2]": 4.
int RanksOf(const std::string& partition);

// A job that trains the network; `partition`: of its input. `optimizer`: in train.optimizer.
std::string JobOf(const StepNetwork& network, const std::string& partition,
                  const std::string& optimizer = "sgd { lr: 0.1 }");

// Whole fields of random numbers, or classes.
Tensors DataOf(const Plan& plan, const StepNetwork& network);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_STEP_NETWORKS_H_
