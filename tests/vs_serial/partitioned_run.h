// One training step of a plan on threads as ranks, and the comparison of every rank's part with whole serial tensors.
//
//   Plan plan = *PlanOf(spec_text, {{"data", 6}});
//   auto ranks = RunStep(plan, {.fields = {{"x", x}, {"label", label}}, .parameters = {{"conv.weight", w}},
//                               .cotangents = {{"conv", g}}});
//   EXPECT_EQ(Differences(plan, "train", *ranks, {.values = {{"conv", y}}, ...}, 1e-10), "");
//
// The serial tensors are computed by the tests with plain LibTorch: nothing here knows what a layer does.
#ifndef ADJOIN_TESTS_VS_SERIAL_PARTITIONED_RUN_H_
#define ADJOIN_TESTS_VS_SERIAL_PARTITIONED_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "base/testing/test_seed.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"

namespace adjoin {

using Tensors = std::map<std::string, at::Tensor>;

// Parses and plans a job, with the builtin layers' rules.
absl::StatusOr<Plan> PlanOf(const std::string& spec, const std::map<std::string, int64_t>& dataset_sizes);

// Lets gradients reach the program's floating-point fields, which a job never asks for: all movements become
// differentiable, but for those of a maximum, which layers take as constants.
void MakeFieldsDifferentiable(Plan& plan, const std::string& program);

// The part of `whole` that a rank holds in a layout.
at::Tensor PartOf(const at::Tensor& whole, const Layout& layout, int rank);

// A rank's part of every field that a program reads, by ValuePlan::name; `fields`: whole, by Dataset field. Those whose
// gradients the plan asks for require them. Errors: kInvalidArgument for a field that `fields` lacks.
absl::StatusOr<Tensors> LocalFields(const ProgramPlan& program, const Tensors& fields, int rank);

struct StepInput {
  Tensors fields;      // whole, by Dataset field
  Tensors parameters;  // whole, by name; those that are absent are drawn from the seed
  Tensors cotangents;  // whole, by value name: the sum of value * cotangent is added to the program's own loss
  std::string program = "train";
  // A rank's tensors are on the device whose memory its transport moves, if it moves one's. A test that asks for fake
  // devices calls RegisterFakeBackend() before any backward pass.
  TransportKind transport = TransportKind::kInMemoryDelayed;
  uint64_t seed = 1;  // of the transport's delays
  double sgd_lr = 0;  // after the step: parameter -= lr * gradient
};

// What one rank has after the step. All tensors are on the CPU.
struct RankResult {
  double loss = 0;                         // the program's own, summed over ranks
  Tensors values;                          // local, by ValuePlan::name
  Tensors field_grads;                     // local, of the fields that need gradients
  std::vector<at::Tensor> parameter;       // local, in the plan's order
  std::vector<at::Tensor> parameter_grad;  // local, after GradientSync; undefined where frozen
  std::vector<at::Tensor> collected;       // gradients, or frozen values, brought together on rank 0
  std::map<std::string, int64_t> peak_elements;
  int64_t synchronizations = 0;  // of the host with its device, during forward and backward
  int64_t bytes_sent = 0;        // during forward, backward, GradientSync and the report of the loss
};

// Errors: of whichever rank failed first; kInternal where a value's graph is still there after the step, as it is if
// something in it holds on to itself: a job would run out of memory.
absl::StatusOr<std::vector<RankResult>> RunStep(const Plan& plan, const StepInput& input);

// Whole tensors that the ranks' parts should be parts of; what is absent is not compared.
struct Expected {
  Tensors values;
  Tensors field_grads;
  Tensors parameter_grads;
  Tensors parameters;
};

// "" where every part on every rank is within `tolerance` of its serial counterpart, relative to that one's largest
// element (at least 1); else the first few differences by name and rank.
std::string Differences(const Plan& plan, const std::string& program, const std::vector<RankResult>& ranks,
                        const Expected& expected, double tolerance);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_PARTITIONED_RUN_H_
