// Attention in float32 and bfloat16 loses no more than LibTorch's own module in the same type, however it is cut.
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <limits>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/rounded_comparison.h"

namespace adjoin {
namespace {

using torch::Tensor;

constexpr int64_t kBatch = 2, kLength = 300, kFeatures = 16, kHeads = 4;

Tensor Module(const Tensor& x, const Tensors& parameters, bool causal) {
  Tensor mask;
  if (causal) {
    const Tensor after = torch::ones({kLength, kLength}, torch::kBool).triu(1);
    mask = torch::zeros({kLength, kLength}, x.options().requires_grad(false))
               .masked_fill(after, -std::numeric_limits<double>::infinity());
  }
  namespace functional = torch::nn::functional;
  const auto options =
      functional::MultiheadAttentionForwardFuncOptions(
          kFeatures, kHeads, parameters.at("y.in_proj_weight"), parameters.at("y.in_proj_bias"), {}, {},
          /*add_zero_attn=*/false, /*dropout_p=*/0, parameters.at("y.out_proj.weight"),
          parameters.at("y.out_proj.bias"))
          .need_weights(false)
          .attn_mask(mask);
  const Tensor first = x.transpose(0, 1);
  return std::get<0>(functional::multi_head_attention_forward(first, first, first, options)).transpose(0, 1);
}

// `scale`: of the input, whose scores grow with its square.
RoundedStep Step(const std::string& compute, const std::string& layout, double scale, bool causal) {
  RandomJobs random(5);
  JobParts job;
  job.ranks = 4;
  job.batch = kBatch;
  job.x_shape = {kLength, kFeatures};
  job.last_dims = 3;
  job.layouts = absl::StrCat("layout { name: \"x\" ", layout, " }\n");
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" attention { heads: ", kHeads,
                            causal ? " causal: true" : "", " } }\n");
  const Tensors parameters = {{"y.in_proj_weight", random.Normal({3 * kFeatures, kFeatures}) * 0.25},
                              {"y.in_proj_bias", random.Normal({3 * kFeatures}) * 0.25},
                              {"y.out_proj.weight", random.Normal({kFeatures, kFeatures}) * 0.25},
                              {"y.out_proj.bias", random.Normal({kFeatures}) * 0.25}};
  const Tensor x = random.Normal({kBatch, kLength, kFeatures}) * scale;
  return {job,        compute,
          x,          random.Normal(x.sizes().vec()),
          parameters, [causal](const Tensor& input, const Tensors& leaves) { return Module(input, leaves, causal); }};
}

TEST(PrecisionTest, NoMoreIsLostThanByTheSerialModule) {
  for (const char* layout : {"partition: [1, 4, 1]", "partition: [1, 2, 2] cut { dim: 1 size: [299, 1] }",
                             "partition: [1, 1, 4]", "partition: [2, 2, 1]"}) {
    for (const bool causal : {false, true}) {
      for (const char* compute : {"float32", "bfloat16"}) {
        // At 30 most of a row's weight is on one key: a softmax that did not subtract the largest score would overflow.
        // bfloat16 leaves too few digits there to compare.
        for (const double scale : {1.0, *compute == 'b' ? 4.0 : 30.0}) {
          const RoundedStep step = Step(compute, layout, scale, causal);
          const auto ours = ErrorsOnRanks(step);
          ASSERT_TRUE(ours.ok()) << ours.status();
          const Errors theirs = SerialErrors(step);
          ASSERT_EQ(ours->size(), 6u);
          const double rounding = *compute == 'b' ? 1.0 / 256 : std::numeric_limits<float>::epsilon();
          for (const auto& [name, error] : *ours) {
            EXPECT_LE(error, 1.5 * theirs.at(name) + 4 * rounding)
                << name << " in " << compute << ", " << layout << (causal ? " causal" : "") << ", scale " << scale
                << "; serial " << theirs.at(name);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace adjoin
