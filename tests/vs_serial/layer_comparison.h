// One step of a job around one layer, on ranks and in serial LibTorch: output, loss, input gradient, parameter
// gradients.
//
//   at::Tensor x = random.Normal({2, 3, 9}).requires_grad_();
//   Tensors parameters = {{"y.weight", random.Normal({4, 3, 5}).requires_grad_()}};
//   at::Tensor y = at::conv1d(x, parameters["y.weight"]);
//   EXPECT_EQ(CompareLayer(job, random, x, parameters, y, TransportKind::kInMemoryDelayed), "");
#ifndef ADJOIN_TESTS_VS_SERIAL_LAYER_COMPARISON_H_
#define ADJOIN_TESTS_VS_SERIAL_LAYER_COMPARISON_H_

#include <string>

#include <ATen/core/Tensor.h>

#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

// `job`: reads the field "x"; its last layer is called "y". `y`: what serial LibTorch makes of `x` and `parameters`
// (leaves), with its graph. "" where every rank's parts agree to 1e-10; else the differences and the job.
std::string CompareLayer(const JobParts& job, RandomJobs& random, const at::Tensor& x, Tensors parameters,
                         const at::Tensor& y, TransportKind transport);
// The same of a job that reads several `fields` (leaves, by name), each by one layer; `values`: of "y" and of other
// layers, all with cotangents of their own. Where no field requires grad, the plan is run as a job would run it.
std::string CompareLayer(const JobParts& job, RandomJobs& random, const Tensors& fields, Tensors parameters,
                         const Tensors& values, TransportKind transport);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_LAYER_COMPARISON_H_
