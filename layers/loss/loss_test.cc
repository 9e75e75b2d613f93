// Every loss with its options, for random layouts of the prediction (cut in any dim, at any places, with copies, on any
// ranks), equals LibTorch's on one rank: the value and the gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using ::testing::HasSubstr;

// A loss with its options, and what serial LibTorch makes of it.
struct LossCase {
  std::string text;       // of Loss: kind and options
  bool classes = false;   // the target's type
  bool positive = false;  // the prediction must be
  bool unit = false;      // it must be in [0, 1]
  torch::Tensor target;
  std::function<torch::Tensor(const torch::Tensor& prediction)> serial;
};

std::vector<double> Eighths(RandomJobs& random, int64_t count, int64_t least) {
  std::vector<double> values;
  while (static_cast<int64_t>(values.size()) < count)
    values.push_back(static_cast<double>(random.Between(least, 20)) / 8);
  return values;
}

std::string List(const std::vector<double>& values) { return absl::StrCat("[", absl::StrJoin(values, ", "), "]"); }

std::vector<int64_t> WithoutClasses(std::vector<int64_t> shape) {
  shape.erase(shape.begin() + 1);
  return shape;
}

torch::Tensor ClassTargets(RandomJobs& random, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> of_target = WithoutClasses(shape);
  return random.Labels(c10::multiply_integers(of_target), shape[1]).reshape(of_target);
}

template <typename Options>
Options WithReduction(Options options, const std::string& reduction) {
  if (reduction == "sum") return options.reduction(torch::kSum);
  return options.reduction(torch::kMean);
}

LossCase ClassCase(RandomJobs& random, const std::string& kind, const std::vector<int64_t>& shape,
                   const std::string& reduction, torch::ScalarType type) {
  LossCase c;
  c.classes = kind == "nll" || !random.OneIn(3);
  c.target = c.classes ? ClassTargets(random, shape) : torch::softmax(random.Normal(shape), 1).to(type);
  torch::Tensor weight;
  if (random.OneIn(2)) {
    const std::vector<double> weights = Eighths(random, shape[1], random.OneIn(3) ? 0 : 1);
    weight = torch::tensor(weights, torch::kFloat64).to(type);
    absl::StrAppend(&c.text, " class_weight: ", List(weights));
  }
  int64_t ignored = -100;  // LibTorch's way to say: none
  if (c.classes && random.OneIn(2)) {
    ignored = random.OneIn(2) ? random.Between(0, shape[1] - 1) : random.Of<int64_t>({-1, 255, -100});
    absl::StrAppend(&c.text, " ignore_index: ", ignored);
    c.target.masked_fill_(random.Normal(c.target.sizes().vec()) > 0.5, ignored);
  }
  double smoothing = 0;
  if (kind == "cross_entropy" && random.OneIn(2)) {
    smoothing = static_cast<double>(random.Between(1, 7)) / 8;
    absl::StrAppend(&c.text, " label_smoothing: ", smoothing);
  }
  c.serial = [=, target = c.target](const torch::Tensor& prediction) {
    if (kind == "nll") {
      return F::nll_loss(prediction, target,
                         WithReduction(F::NLLLossFuncOptions().weight(weight).ignore_index(ignored), reduction));
    }
    return F::cross_entropy(
        prediction, target,
        WithReduction(F::CrossEntropyFuncOptions().weight(weight).ignore_index(ignored).label_smoothing(smoothing),
                      reduction));
  };
  return c;
}

// On the whole tensor.
LossCase DiceCase(RandomJobs& random, const std::vector<int64_t>& shape, torch::ScalarType type) {
  LossCase c;
  c.positive = true;
  c.classes = random.OneIn(2);
  c.target = c.classes ? ClassTargets(random, shape) : torch::sigmoid(random.Normal(shape)).to(type);
  const double smooth = random.OneIn(2) ? 1 : static_cast<double>(random.Between(1, 12)) / 8;
  if (smooth != 1) c.text = absl::StrCat(" smooth: ", smooth);
  c.serial = [smooth, classes = c.classes, target = c.target](const torch::Tensor& p) {
    const torch::Tensor t = classes ? torch::one_hot(target, p.size(1)).movedim(-1, 1).to(p.scalar_type()) : target;
    const auto per_class = [](const torch::Tensor& x) { return x.transpose(0, 1).flatten(1).sum(1); };
    return 1 - ((2 * per_class(p * t) + smooth) / (per_class(p) + per_class(t) + smooth)).mean();
  };
  return c;
}

LossCase BceCase(RandomJobs& random, const std::vector<int64_t>& shape, const std::string& reduction,
                 torch::ScalarType type) {
  LossCase c;
  c.target = torch::sigmoid(random.Normal(shape)).to(type);
  auto options = WithReduction(F::BinaryCrossEntropyWithLogitsFuncOptions(), reduction);
  if (!random.OneIn(3)) {
    const std::vector<double> weights = Eighths(random, random.OneIn(3) ? 1 : shape[1], 1);
    std::vector<int64_t> view(shape.size(), 1);
    view[1] = static_cast<int64_t>(weights.size());
    options.pos_weight(torch::tensor(weights, torch::kFloat64).to(type).reshape(view));
    c.text = absl::StrCat(" pos_weight: ", List(weights));
  }
  c.serial = [options, target = c.target](const torch::Tensor& p) {
    return F::binary_cross_entropy_with_logits(p, target, options);
  };
  return c;
}

LossCase NumberCase(RandomJobs& random, const std::string& kind, const std::vector<int64_t>& shape,
                    const std::string& reduction, torch::ScalarType type) {
  LossCase c;
  c.target = random.Normal(shape).to(type);
  if (kind == "mse") {
    c.serial = [=](const torch::Tensor& p) {
      return F::mse_loss(p, c.target, WithReduction(F::MSELossFuncOptions(), reduction));
    };
  } else if (kind == "l1") {
    c.serial = [=](const torch::Tensor& p) {
      return F::l1_loss(p, c.target, WithReduction(F::L1LossFuncOptions(), reduction));
    };
  } else if (kind == "huber") {
    const double delta = random.OneIn(2) ? 1 : static_cast<double>(random.Between(1, 12)) / 8;
    if (delta != 1) c.text = absl::StrCat(" delta: ", delta);
    c.serial = [=](const torch::Tensor& p) {
      return F::huber_loss(p, c.target, WithReduction(F::HuberLossFuncOptions().delta(delta), reduction));
    };
  } else if (kind == "smooth_l1") {
    const double beta = random.OneIn(2) ? 1 : static_cast<double>(random.Between(1, 12)) / 8;
    if (beta != 1) c.text = absl::StrCat(" delta: ", beta);
    c.serial = [=](const torch::Tensor& p) {
      const torch::Tensor far = (p - c.target).abs();
      const torch::Tensor each = torch::where(far < beta, far * far / (2 * beta), far - beta / 2);
      return reduction == "sum" ? each.sum() : each.mean();
    };
  } else if (kind == "bce") {
    c.unit = true;
    c.target = torch::sigmoid(c.target);
    c.serial = [=](const torch::Tensor& p) {
      return F::binary_cross_entropy(p, c.target, WithReduction(F::BinaryCrossEntropyFuncOptions(), reduction));
    };
  } else if (kind == "poisson_nll") {
    c.positive = random.OneIn(2);
    const bool full = random.OneIn(2), with_eps = random.OneIn(2);
    c.text = absl::StrCat(c.positive        ? " log_input: false"
                          : random.OneIn(2) ? " log_input: true"
                                            : "",
                          full ? " full: true" : "", with_eps ? " eps: 0.125" : "");
    c.target = c.target.exp() * 2;
    const auto options = WithReduction(
        F::PoissonNLLLossFuncOptions().log_input(!c.positive).full(full).eps(with_eps ? 0.125 : 1e-8), reduction);
    c.serial = [=](const torch::Tensor& p) { return F::poisson_nll_loss(p, c.target, options); };
  } else if (kind == "cosine") {
    // A target of zeros has the cosine 0 with everything.
    c.target.select(0, 0).zero_();
    c.serial = [=](const torch::Tensor& p) {
      const torch::Tensor each = 1 - F::cosine_similarity(p, c.target, F::CosineSimilarityFuncOptions().dim(1));
      return reduction == "sum" ? each.sum() : each.mean();
    };
  } else if (kind == "kl_div") {
    const bool log_target = random.OneIn(2);
    if (log_target) c.text = " log_target: true";
    if (!log_target) c.target = torch::relu(c.target);
    c.serial = [=](const torch::Tensor& p) {
      const torch::Tensor each = torch::kl_div(p, c.target, at::Reduction::None, log_target);
      return reduction == "sum" ? each.sum() : reduction == "batchmean" ? each.sum() / p.size(0) : each.mean();
    };
  }
  return c;
}

LossCase CaseOf(RandomJobs& random, const std::string& kind, const std::vector<int64_t>& shape,
                torch::ScalarType type = torch::kFloat64) {
  std::string reduction = random.Of<std::string>({"", "mean", "sum"});
  if (kind == "dice") reduction = "";
  if (kind == "kl_div" && random.OneIn(2)) reduction = "batchmean";
  LossCase c = kind == "cross_entropy" || kind == "nll" ? ClassCase(random, kind, shape, reduction, type)
               : kind == "dice"                         ? DiceCase(random, shape, type)
               : kind == "bce_with_logits"              ? BceCase(random, shape, reduction, type)
                                                        : NumberCase(random, kind, shape, reduction, type);
  c.text = absl::StrCat("kind: \"", kind, "\"",
                        reduction.empty() ? "" : absl::StrCat(" reduction: \"", reduction, "\""), c.text);
  return c;
}

struct Term {
  LossCase loss;
  double weight = 1;
};

// A job on the field "x" of `shape`, whose prediction is the layer "y".
std::string JobOf(int64_t ranks, const std::vector<int64_t>& shape, const std::string& layouts_and_layers,
                  const std::vector<Term>& terms, const std::string& precision) {
  const auto sample = [](const std::vector<int64_t>& batch) {
    return batch.size() < 2 ? std::string() : absl::StrCat(" shape: ", ListText({batch.begin() + 1, batch.end()}));
  };
  std::string losses, fields;
  for (size_t i = 0; i < terms.size(); ++i) {
    const LossCase& c = terms[i].loss;
    absl::StrAppend(&losses, "loss { input: \"y\" target: \"t", i, "\" ", c.text,
                    terms[i].weight == 1 ? "" : absl::StrCat(" weight: ", terms[i].weight), " }\n");
    absl::StrAppend(&fields, " field { name: \"t", i, "\"", sample(c.target.sizes().vec()),
                    c.classes ? " dtype: \"int64\"" : "", " idx { path: \"t\" } }");
  }
  return absl::StrCat("name: \"case\" kind: TRAIN ranks: ", ranks, " seed: 1 precision { compute: \"", precision,
                      "\" }\n", layouts_and_layers, losses, "dataset { name: \"data\" field { name: \"x\"",
                      sample(shape), " idx { path: \"x\" } }", fields,
                      " }\ntrain { dataset: \"data\" batch: ", shape[0],
                      " steps: 1 optimizer { sgd { lr: 0.1 } } }\noutput_dir: \"out\"\n");
}

// What the layers make of the field: `n`, a batch normalisation of it, and `y`, the prediction.
struct Network {
  torch::Tensor x, n, y;
  Tensors parameters;
};

constexpr char kNorm[] = "layer { name: \"n\" input: \"x\" x: \"x\" norm { kind: \"batch\" } }\n";

Network NetworkOn(RandomJobs& random, const torch::Tensor& x) {
  Network network{x.detach().requires_grad_(), {}, {}, {}};
  for (const char* name : {"n.weight", "n.bias"}) {
    network.parameters[name] = random.Normal({x.size(1)}).to(x.scalar_type()).requires_grad_();
  }
  network.n = torch::batch_norm(network.x, network.parameters["n.weight"], network.parameters["n.bias"], {}, {},
                                /*training=*/true, 0.1, 1e-5, false);
  network.y = network.x;
  return network;
}

// One step on all ranks. A prediction that does not come from `n` leaves that to a cotangent of its own.
std::string CompareStep(const std::string& spec, RandomJobs& random, const Network& network,
                        const std::vector<Term>& terms, TransportKind transport, double tolerance) {
  const auto& [x, n, prediction, parameters] = network;
  torch::Tensor loss;
  StepInput input;
  for (size_t i = 0; i < terms.size(); ++i) {
    const torch::Tensor term = terms[i].loss.serial(prediction) * terms[i].weight;
    loss = loss.defined() ? loss + term : term;
    input.fields[absl::StrCat("t", i)] = terms[i].loss.target;
  }
  const torch::Tensor cotangent = random.Normal(n.sizes().vec()).to(n.scalar_type()) * 0.125;
  input.cotangents = {{"n", cotangent}};
  (loss + (n * cotangent).sum()).backward();
  absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", x.size(0)}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  // Gradients of parameters must be right with what the plan itself makes differentiable.
  const bool of_field = prediction.is_same(x);
  if (of_field) MakeFieldsDifferentiable(*plan, "train");
  input.fields["x"] = x.detach();
  input.transport = transport;
  input.seed = random.Between(0, 1 << 30);
  Expected expected;
  expected.values = {{"n", n.detach()}, {"y", prediction.detach()}};
  if (of_field) expected.field_grads = {{"x", x.grad()}};
  for (const auto& [name, parameter] : parameters) {
    input.parameters[name] = parameter.detach();
    expected.parameter_grads[name] = parameter.grad();
  }
  auto ranks = RunStep(*plan, input);
  if (!ranks.ok()) return absl::StrCat(ranks.status().ToString(), "\n", spec);
  std::string differences = Differences(*plan, "train", *ranks, expected, tolerance);
  const double serial = loss.item<double>();
  for (const RankResult& rank : *ranks) {
    const bool same = std::isnan(serial) ? std::isnan(rank.loss)
                                         : std::abs(rank.loss - serial) <= tolerance * std::max(1.0, std::abs(serial));
    if (!same) absl::StrAppend(&differences, "loss ", rank.loss, " instead of ", serial, "\n");
  }
  return differences.empty() ? "" : absl::StrCat(differences, spec);
}

std::string LayoutOf(RandomJobs& random, const std::string& name, const std::vector<int64_t>& shape, int64_t ranks,
                     bool copies) {
  const std::vector<int64_t> partition = random.Partition(static_cast<int>(shape.size()), /*whole=*/-1, ranks);
  const int64_t parts = c10::multiply_integers(partition);
  if (copies) return random.MeshLayout(name, shape, partition, random.Between(1, ranks / parts), ranks);
  return LayoutText(name, partition, random.Ranks(parts, ranks), random.Cuts(shape, partition));
}

std::vector<int64_t> RandomShape(RandomJobs& random) {
  const int64_t dims = random.Between(2, 5);
  std::vector<int64_t> shape = {random.Between(2, 5), random.Between(1, 5)};
  while (static_cast<int64_t>(shape.size()) < dims) shape.push_back(random.Between(1, dims == 3 ? 7 : 4));
  return shape;
}

// `layer`: the prediction comes from the batch normalisation, whose weight and bias get gradients; else it is the
// field.
std::string Compare(uint64_t seed, const std::vector<std::string>& kinds, int64_t ranks, bool layer,
                    TransportKind transport, torch::ScalarType type = torch::kFloat64, bool one_per_sample = false) {
  RandomJobs random(seed);
  const std::vector<int64_t> shape =
      one_per_sample ? std::vector<int64_t>{random.Between(2, 7), 1} : RandomShape(random);
  std::vector<Term> terms;
  bool positive = false, unit = false;
  for (const std::string& kind : kinds) {
    terms.push_back({CaseOf(random, kind, shape, type)});
    if (one_per_sample) terms.back().loss.target = terms.back().loss.target.flatten();
    if (kinds.size() > 1) terms.back().weight = static_cast<double>(random.Between(-8, 16)) / 4;
    positive = positive || terms.back().loss.positive;
    unit = unit || terms.back().loss.unit;
  }
  torch::Tensor x = random.Normal(shape).to(type);
  if (positive) x = x.exp();
  if (unit) x = torch::sigmoid(x);
  Network network = NetworkOn(random, x);
  std::string text = LayoutOf(random, "x", shape, ranks, /*copies=*/false) +
                     LayoutOf(random, "y", shape, ranks, /*copies=*/random.OneIn(2)) + kNorm;
  if (layer) network.y = network.n;
  if (layer && positive) {
    network.y = torch::relu(network.n);
    text += "layer { name: \"r\" activation { fn: \"relu\" } }\n";
  }
  if (layer && unit) {
    network.y = torch::sigmoid(network.n);
    text += "layer { name: \"s\" activation { fn: \"sigmoid\" } }\n";
  }
  text += layer ? "layer { name: \"y\" y: \"y\" repartition {} }\n"
                : "layer { name: \"y\" input: \"x\" x: \"x\" y: \"y\" repartition {} }\n";
  const bool is_double = type == torch::kFloat64;
  return CompareStep(JobOf(ranks, shape, text, terms, is_double ? "float64" : "float32"), random, network, terms,
                     transport, is_double ? 1e-10 : 2e-5);
}

class LossTest : public testing::TestWithParam<std::string> {};

TEST_P(LossTest, OfAFieldInAnyLayout) {
  const uint64_t first = TestSeed(100);
  for (uint64_t seed = first; seed < first + 24; ++seed) {
    ASSERT_EQ(Compare(seed, {GetParam()}, 1 + static_cast<int64_t>(seed % 6), /*layer=*/false,
                      TransportKind::kInMemoryDelayed),
              "")
        << "ADJOIN_TEST_SEED=" << seed;
  }
}

TEST_P(LossTest, AfterALayerWithParameters) {
  const uint64_t first = TestSeed(500);
  for (uint64_t seed = first; seed < first + 12; ++seed) {
    ASSERT_EQ(Compare(seed, {GetParam()}, 1 + static_cast<int64_t>(seed % 6), /*layer=*/true,
                      TransportKind::kInMemoryDelayed),
              "")
        << "ADJOIN_TEST_SEED=" << seed;
  }
}

TEST_P(LossTest, InSinglePrecision) {
  const uint64_t first = TestSeed(900);
  for (uint64_t seed = first; seed < first + 4; ++seed) {
    ASSERT_EQ(Compare(seed, {GetParam()}, 4, /*layer=*/false, TransportKind::kInMemoryDelayed, torch::kFloat32), "")
        << "ADJOIN_TEST_SEED=" << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LossTest,
                         testing::Values("cross_entropy", "nll", "mse", "l1", "huber", "smooth_l1", "bce",
                                         "bce_with_logits", "poisson_nll", "kl_div", "dice", "cosine"),
                         [](const testing::TestParamInfo<std::string>& kind) { return kind.param; });

TEST(LossesTest, SeveralAreAddedWithTheirWeights) {
  const uint64_t first = TestSeed(40);
  for (uint64_t seed = first; seed < first + 8; ++seed) {
    const std::vector<std::string> kinds = {"cross_entropy", "dice", "huber", "cross_entropy"};
    ASSERT_EQ(Compare(seed, kinds, 1 + static_cast<int64_t>(seed % 6), /*layer=*/seed % 2 == 0,
                      seed % 4 == 3 ? TransportKind::kUcxSharedMemory : TransportKind::kInMemoryDelayed),
              "")
        << "ADJOIN_TEST_SEED=" << seed;
  }
}

// [n] against a prediction [n, 1], in any layout, is each sample's own target; LibTorch's serial loss has [n, 1].
TEST(LossesTest, ATargetMayBeOneNumberForEachSample) {
  const uint64_t first = TestSeed(70);
  const std::vector<std::string> kinds = {"mse",         "l1",    "huber", "smooth_l1", "bce_with_logits",
                                          "poisson_nll", "kl_div"};
  for (uint64_t seed = first; seed < first + 28; ++seed) {
    ASSERT_EQ(Compare(seed, {kinds[seed % kinds.size()]}, 1 + static_cast<int64_t>(seed % 5), /*layer=*/seed % 2 == 0,
                      TransportKind::kInMemoryDelayed, torch::kFloat64, /*one_per_sample=*/true),
              "")
        << "ADJOIN_TEST_SEED=" << seed;
  }
}

constexpr char kGrid[] = R"(layout { name: "x" partition: [1, 2, 2] }
layer { name: "n" input: "x" x: "x" norm { kind: "batch" } }
layer { name: "y" input: "x" x: "x" y: "x" repartition {} }
)";

TEST(LossesTest, IsNotANumberWhereEveryTargetIsIgnored) {
  for (const char* options : {"", " class_weight: [1, 0.5, 2]", " label_smoothing: 0.125"}) {
    RandomJobs random(7);
    LossCase c;
    c.classes = true;
    c.text = absl::StrCat("kind: \"cross_entropy\" ignore_index: 1", options);
    c.target = torch::ones({2, 4}, torch::kInt64);
    c.serial = [&](const torch::Tensor& p) {
      auto of_libtorch = F::CrossEntropyFuncOptions().ignore_index(1);
      if (absl::StrContains(options, "class_weight")) {
        of_libtorch.weight(torch::tensor({1.0, 0.5, 2.0}, torch::kFloat64));
      }
      if (absl::StrContains(options, "smoothing")) of_libtorch.label_smoothing(0.125);
      return F::cross_entropy(p, c.target, of_libtorch);
    };
    const Network network = NetworkOn(random, random.Normal({2, 3, 4}));
    EXPECT_EQ(CompareStep(JobOf(4, {2, 3, 4}, kGrid, {{c}}, "float64"), random, network, {{c}},
                          TransportKind::kInMemoryDelayed, 1e-10),
              "");
  }
}

// The gradients of a prediction of zeros are LibTorch's. (Those of one below eps are another version's of it.)
TEST(LossesTest, TheCosineOfZerosIsLibTorchs) {
  RandomJobs random(9);
  LossCase c;
  c.text = "kind: \"cosine\" reduction: \"sum\"";
  c.target = random.Normal({2, 3, 4});
  c.serial = [&](const torch::Tensor& p) {
    return (1 - F::cosine_similarity(p, c.target, F::CosineSimilarityFuncOptions().dim(1))).sum();
  };
  torch::Tensor x = random.Normal({2, 3, 4});
  x.select(2, 0).zero_();
  const Network network = NetworkOn(random, x);
  EXPECT_EQ(CompareStep(JobOf(4, {2, 3, 4}, kGrid, {{c}}, "float64"), random, network, {{c}},
                        TransportKind::kInMemoryDelayed, 1e-10),
            "");
}

TEST(LossesTest, ATargetThatIsNoClassIsAnError) {
  for (const char* kind : {"cross_entropy", "nll", "dice"}) {
    for (const int64_t wrong : {3, -100, -1}) {
      LossCase c;
      c.classes = true;
      c.text = absl::StrCat("kind: \"", kind, "\"");
      c.target = torch::zeros({2, 4}, torch::kInt64);
      c.target[1][3] = wrong;
      const auto plan = PlanOf(JobOf(4, {2, 3, 4}, kGrid, {{c}}, "float64"), {{"data", 2}});
      ASSERT_TRUE(plan.ok()) << plan.status();
      StepInput input;
      input.fields = {{"x", torch::zeros({2, 3, 4}, torch::kFloat64)}, {"t0", c.target}};
      const auto ranks = RunStep(*plan, input);
      EXPECT_EQ(ranks.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(ranks.status().message()),
                  HasSubstr(absl::StrCat("loss 0, ", kind, " of \"y\": the target \"t0\" holds ", wrong,
                                         ", but the prediction has 3 classes, 0 to 2")));
    }
  }
}

}  // namespace
}  // namespace adjoin
