// A whole job of a language model whose embedding and scores share one table, in micro-batches and with a smaller last
// batch: the written model has the table once, and is that of a serial program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "primitives/geometry/box.h"
#include "tests/predict/job_run.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

constexpr int64_t kSamples = 11, kLength = 5, kWords = 9, kFeatures = 4, kBatch = 4, kSteps = 5;

// RANKS, SAMPLES, TABLE and SCORES are replaced.
constexpr char kJob[] = R"(
name: "language" kind: TRAIN ranks: RANKS seed: 1
layout { name: "samples" SAMPLES }
layout { name: "rows" partition: [RANKS, 1] }
layer { name: "words" input: "word" x: "samples" TABLE embedding { num_embeddings: 9 dim: 4 } }
layer { name: "hidden" linear { out_features: 4 } }
layer { name: "bent" activation { fn: "tanh" } }
layer { name: "scores" SCORES linear { out_features: 9 bias: false } }
layer { name: "classes" permute { arg: [0, 2, 1] } }
loss { kind: "cross_entropy" input: "classes" target: "next" }
dataset { name: "text"
  field { name: "word" npy { path: "word.npy" } shape: 5 dtype: "int64" }
  field { name: "next" npy { path: "next.npy" } shape: 5 dtype: "int64" } }
train { dataset: "text" batch: 4 microbatches: 2 steps: 5 optimizer { adam { lr: 0.05 } } }
weights { init_from: "start.safetensors" }
precision { compute: "float64" }
output_dir: "job"
)";

struct Cut {
  int ranks;
  std::string samples, table, scores;
};

const std::vector<Cut> kCuts = {
    {1, "partition: [1, 1]", "", "weights_of: \"words\""},
    {2, "partition: [2, 1]", "", "weights_of: \"words\""},
    {2, "partition: [1, 2]", "weights_of: \"scores\"", "w: \"rows\" home: SHARDED"},
    {4, "partition: [1, 2] rank: [0, 3]", "home: OWNER owner: 2", "weights_of: \"words\" w: \"rows\""},
    {4, "partition: [2, 2]", "w: \"rows\"", "weights_of: \"words\" recompute: true"},
};

Tensor Loss(const Tensors& p, const Tensor& word, const Tensor& next) {
  const Tensor x = torch::embedding(p.at("table"), word);
  const Tensor hidden = torch::tanh(torch::linear(x, p.at("hidden.weight"), p.at("hidden.bias")));
  return F::cross_entropy(torch::linear(hidden, p.at("table")).permute({0, 2, 1}), next);
}

Tensors Trained(const Tensors& start, const Tensor& word, const Tensor& next) {
  Tensors p;
  std::vector<Tensor> leaves;
  for (const auto& [name, value] : start) leaves.push_back(p[name] = value.clone().set_requires_grad(true));
  torch::optim::Adam adam(leaves, torch::optim::AdamOptions(0.05));
  for (int64_t step = 0, first = 0; step < kSteps; ++step) {
    const int64_t count = std::min(kBatch, kSamples - first);
    adam.zero_grad();
    Loss(p, word.narrow(0, first, count), next.narrow(0, first, count)).backward();
    adam.step();
    first = first + count == kSamples ? 0 : first + count;
  }
  return p;
}

TEST(SharedWeightsJobTest, TheTableIsTrainedAndWrittenOnce) {
  torch::manual_seed(5);
  const Tensor word = torch::randint(kWords, {kSamples, kLength}, torch::kInt64);
  const Tensor next = torch::randint(kWords, {kSamples, kLength}, torch::kInt64);
  const Tensors start = {{"table", torch::randn({kWords, kFeatures}, torch::kFloat64)},
                         {"hidden.weight", torch::randn({kFeatures, kFeatures}, torch::kFloat64)},
                         {"hidden.bias", torch::randn({kFeatures}, torch::kFloat64)}};
  const Tensors trained = Trained(start, word, next);
  for (size_t i = 0; i < kCuts.size(); ++i) {
    const Cut& cut = kCuts[i];
    SCOPED_TRACE(i);
    const std::string owner = cut.table.rfind("weights_of", 0) == 0 ? "scores" : "words";
    const JobFolder folder(absl::StrCat("shared_weights_", i));
    folder.WriteArray("data/word.npy", word);
    folder.WriteArray("data/next.npy", next);
    const Tensors model = {{owner + ".weight", start.at("table")},
                           {"hidden.weight", start.at("hidden.weight")},
                           {"hidden.bias", start.at("hidden.bias")}};
    ASSERT_EQ(folder.WriteModel("data/start.safetensors", model), absl::OkStatus());
    const std::string text = absl::StrReplaceAll(
        kJob,
        {{"RANKS", absl::StrCat(cut.ranks)}, {"SAMPLES", cut.samples}, {"TABLE", cut.table}, {"SCORES", cut.scores}});
    const auto results = RunJob(text, {{"text", kSamples}}, folder);
    ASSERT_TRUE(results.ok()) << results.status() << text;

    const auto file = SafetensorsReader::Open(folder.Path("output/job/model.safetensors"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->entries().size(), 3);
    for (const SafetensorsEntry& entry : (*file)->entries()) {
      const Tensor& expected = trained.at(entry.name == owner + ".weight" ? "table" : entry.name);
      Tensor found = torch::empty(entry.shape, torch::kFloat64);
      ASSERT_EQ(entry.dtype, DType::kFloat64);
      ASSERT_EQ((*file)->ReadBox(entry, Box::Whole(entry.shape), found.data_ptr()), absl::OkStatus());
      EXPECT_TRUE(torch::allclose(found, expected, 1e-9, 1e-9)) << entry.name << text;
    }
  }
}

}  // namespace
}  // namespace adjoin
