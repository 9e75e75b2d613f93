// The network of an example's job on several numbers of ranks, one training step in float64 against a serial LibTorch
// network that the test writes by hand: loss, the outputs that the test names (the last layer's among them), the
// gradients of the floating-point fields, every parameter's gradient and value after the step, running statistics.
//
//   struct Net : torch::nn::Module { ... torch::Tensor Loss(const Tensors& fields, Tensors& values); ... };
//   auto net = std::make_shared<Net>();
//   NetworkComparison network({.job = "examples/unet/unet3d.textproto",
//                              .edit = [](JobSpec& job) { job.mutable_train()->set_batch(1); },
//                              .classes = {{"label", 3}},
//                              .module = net,
//                              .loss = [&](const Tensors& fields, const Tensors&, Tensors& values) {
//                                return net->Loss(fields, values);   // which writes values["head"], the last layer's
//                                output
//                              },
//                              .parts = {{3, {{"grid", {1, 1, 1, 1, 3}}}}}},
//                             TestSeed(1));
//   for (const int ranks : kNumbersOfRanks) EXPECT_EQ(network.DifferencesOn(ranks), "");
//
// The job file is a test's `data`. Fields and parameters are drawn from the seed, parameters in their stored shape;
// serial and partitioned network share them by their state_dict names. Where the serial network is a function, it finds
// them in `parameters` and no module is given. Nothing is random in the step: a test takes dropout and noise out by
// `edit`, or knows their numbers.
#ifndef ADJOIN_TESTS_NETWORKS_NETWORK_COMPARISON_H_
#define ADJOIN_TESTS_NETWORKS_NETWORK_COMPARISON_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn.h>
#include <torch/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {

inline constexpr int kNumbersOfRanks[] = {1, 2, 3, 4, 6};

// Parts per tensor dim, or per mesh axis, by the layout's name.
using PartsOfLayouts = std::map<std::string, std::vector<uint32_t>>;

struct NetworkCase {
  // Path of the job file below the repository's root.
  std::string job;
  // Applied to the parsed job before anything else: a smaller batch, smaller shapes (see SetFieldShape). The frame
  // itself sets float64 and removes what only whole runs have: initial weights, checkpoints, evaluation.
  std::function<void(JobSpec&)> edit = nullptr;
  // By int64 field: its values are drawn from 0 to this number less 1.
  std::map<std::string, int64_t> classes;
  // Has exactly the trained parameters of the job, by name and in the stored shape (module.to(float64) is done here);
  // its buffers are compared after the step. Absent: `loss` takes its parameters from its second argument.
  std::shared_ptr<torch::nn::Module> module;
  // The serial network: fields by name, parameters by name; returns the loss and writes outputs by layer name into
  // `values`.
  std::function<torch::Tensor(const Tensors& fields, const Tensors& parameters, Tensors& values)> loss;
  // How layouts are cut for a number of ranks. Layouts that are not named here, and numbers of ranks that are absent,
  // are cut by verify/recut.h.
  std::map<int, PartsOfLayouts> parts;
};

// Gives a field of every data set another shape, without the batch dim.
void SetFieldShape(JobSpec& job, const std::string& field, const std::vector<int64_t>& shape);

// The plan of the case's job on so many ranks, of one step in float64.
absl::StatusOr<Plan> PlanOfNetwork(const NetworkCase& network, int ranks);

class NetworkComparison {
 public:
  // Runs the serial step.
  NetworkComparison(NetworkCase network, uint64_t seed);

  // "" where on so many ranks everything agrees to 1e-10 on every rank, and a step as a job runs it sends what its plan
  // says; else the differences, or what went wrong, with the seed.
  std::string DifferencesOn(int ranks) const;

 private:
  absl::Status RunSerial();
  absl::Status TakeParameters(const Plan& plan, Tensors& leaves);
  absl::Status TakeGradients(const Tensors& fields, const Tensors& leaves);
  Tensors DrawFields(const ProgramPlan& program) const;

  const NetworkCase network_;
  const uint64_t seed_;
  absl::Status serial_status_;
  StepInput input_;
  Expected expected_;
  double loss_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_NETWORKS_NETWORK_COMPARISON_H_
