// Sums of gradients, in buckets and in the backward pass: the bits are those of each gradient's own sum after it, in
// few messages, the first of which leave before the backward pass ends; and what becomes of a rank that stops in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/testing/test_seed.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/operators.h"
#include "layers/network/parameters.h"
#include "planner/plan/gradient_buckets.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/movement.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/forwarding_transport.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

constexpr char kData[] = R"(
dataset { name: "data" field { name: "x" idx { path: "i" } shape: [SHAPE] }
  field { name: "label" idx { path: "l" } dtype: "int64" } }
train { dataset: "data" batch: BATCH steps: 4 optimizer { sgd { lr: 0.1 } } }
precision { compute: "TYPE" }
)";

// Linear layers on a batch that is cut over all ranks; where their number allows it, some weights are cut over a mesh
// whose other axis cuts the batch.
std::string MlpText(int ranks, const std::vector<int64_t>& features, const std::string& type, bool mesh) {
  std::string text = absl::StrCat("name: \"mlp\" kind: TRAIN ranks: ", ranks,
                                  " seed: 1\nlayout { name: \"rows\" partition: [", ranks, ", 1] }\n");
  if (mesh) {
    absl::StrAppend(&text, "layout { name: \"w\" mesh { size: ", ranks / 2,
                    " } mesh { size: 2 } sbp: [\"B\", \"S(0)\"] }\n");
  }
  for (size_t i = 1; i < features.size(); ++i) {
    absl::StrAppend(&text, "layer { name: \"l", i, "\" ", i == 1 ? "input: \"x\" " : "", "x: \"rows\" ",
                    mesh && i % 3 == 0 ? "w: \"w\" " : "", "linear { out_features: ", features[i], " } }\n");
  }
  absl::StrAppend(&text, "loss { kind: \"cross_entropy\" input: \"l", features.size() - 1, "\" target: \"label\" }");
  return text + absl::StrReplaceAll(
                    kData, {{"SHAPE", absl::StrCat(features[0])}, {"BATCH", absl::StrCat(2 * ranks)}, {"TYPE", type}});
}

// All that a network has beside plain layers: halos, batch norm, weights that two layers share, layers that are
// computed again, homes of every kind.
constexpr char kMixed[] = R"(name: "mixed" kind: TRAIN ranks: RANKS seed: 2
layout { name: "rows" partition: [1, 1, RANKS, 1] }
layout { name: "batch" partition: [RANKS, 1, 1, 1] }
layer { name: "a1" input: "x" x: "rows" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n1" norm { kind: "batch" } }
layer { name: "t1" activation { fn: "tanh" } }
layer { name: "a2" recompute: true conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "t2" recompute: true activation { fn: "prelu" } }
layer { name: "a3" weights_of: "a2" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "a4" home: SHARDED conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "a5" home: OWNER conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "a6" recompute: true conv { out_channels: 6 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n6" recompute: true norm { kind: "batch" } }
layer { name: "a7" frozen: true conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "b" y: "batch" repartition {} }
layer { name: "flat" flatten {} }
layer { name: "fc1" linear { out_features: 60 } }
layer { name: "fc" linear { out_features: 5 } }
loss { kind: "cross_entropy" input: "fc" target: "label" })";

std::string MixedText(int ranks) {
  return absl::StrReplaceAll(
      absl::StrCat(kMixed, kData),
      {{"RANKS", absl::StrCat(ranks)}, {"SHAPE", "2, 12, 10"}, {"BATCH", "8"}, {"TYPE", "float32"}});
}

Tensors FieldsOf(const Plan& plan, uint64_t seed) {
  RandomJobs random(seed);
  const Dataset& data = plan.spec().dataset(0);
  const int64_t batch = plan.program(0).batch();
  std::vector<int64_t> shape = {batch};
  shape.insert(shape.end(), data.field(0).shape().begin(), data.field(0).shape().end());
  const bool wide = plan.spec().precision().compute() == "float64";
  return {{"x", random.Normal(shape).to(wide ? at::kDouble : at::kFloat)}, {"label", random.Labels(batch, 5)}};
}

// Notes every message that leaves the rank.
class NotingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override {
    if (tag.fields().op == broken_) {
      absl::Status broken = absl::UnavailableError("the rank was killed");
      Abort(broken);
      return broken;
    }
    if (peer != rank()) sent.push_back(tag.fields());
    return ForwardingTransport::StartSend(peer, tag, buffer);
  }
  // The rank dies when it sends its first message of this operator.
  void BreakAt(int64_t op) { broken_ = op; }
  std::vector<Tag::Fields> sent;

 private:
  int64_t broken_ = -1;
};

struct RankOfNetwork {
  static absl::StatusOr<std::unique_ptr<RankOfNetwork>> Create(const Plan& plan, Transport& transport,
                                                               absl::Duration timeout = absl::Seconds(60)) {
    auto rank = std::make_unique<RankOfNetwork>();
    rank->communicator = std::make_unique<Communicator>(&transport, &rank->memory, Communicator::Options{0, timeout});
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
    rank->parameters = std::make_unique<Parameters>(std::move(parameters));
    rank->parameters->Initialise(plan.spec().seed());
    ADJOIN_ASSIGN_OR_RETURN(rank->network, Network::Create(plan, "train", rank->communicator.get(),
                                                           rank->parameters.get(), BuiltinLayers()));
    ADJOIN_ASSIGN_OR_RETURN(rank->sync, GradientSync::Create(plan, rank->communicator.get(), rank->parameters.get()));
    return rank;
  }

  absl::Status Pass(const Plan& plan, const Tensors& whole, bool sums, bool twice = false) {
    network->SumInBackward(sums ? sync.get() : nullptr);
    ADJOIN_ASSIGN_OR_RETURN(Tensors fields, LocalFields(plan.program(0), whole, parameters->rank()));
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network->Forward(std::move(fields), tape));
    try {
      tape.Backward(result.loss, 1, /*retain_graph=*/twice);
      if (twice) tape.Backward(result.loss);
    } catch (...) {
      return StatusFromCurrentException();
    }
    return absl::OkStatus();
  }

  std::vector<at::Tensor> TakeGradients() {
    std::vector<at::Tensor> gradients;
    for (int i = 0; i < parameters->size(); ++i) {
      at::Tensor parameter = parameters->tensor(i);
      gradients.push_back(parameter.grad());
      parameter.mutable_grad().reset();
    }
    return gradients;
  }

  HostMemory memory;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Parameters> parameters;
  std::unique_ptr<Network> network;
  std::unique_ptr<GradientSync> sync;
};

// at::equal takes 0 and -0 for the same.
bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  const at::ScalarType bits = a.element_size() == 8 ? at::kLong : a.element_size() == 4 ? at::kInt : at::kShort;
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         at::equal(a.contiguous().view(bits), b.contiguous().view(bits));
}

absl::Status Compare(const Plan& plan, const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  for (int i = 0; i < plan.parameter_size(); ++i) {
    if (!SameBits(found[i], expected[i])) {
      return absl::InternalError(absl::StrCat("the gradient of ", plan.parameter(i).name(), " has other bits"));
    }
  }
  return absl::OkStatus();
}

// Sums random gradients in buckets and each by itself.
absl::Status CompareBuckets(const Plan& plan, uint64_t seed, Transport& transport) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {.id = 0}), other(&transport, &memory, {.id = 1});
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan, &communicator, &parameters));
  RandomJobs random(seed * 1000 + transport.rank());
  std::vector<at::Tensor> expected;
  for (int i = 0; i < plan.parameter_size(); ++i) {
    at::Tensor parameter = parameters.tensor(i);
    at::Tensor grad = random.Normal(parameter.sizes().vec()).to(parameter.scalar_type());
    // Some have none on this rank; some are not contiguous, as those of a transposed weight.
    const bool none = random.OneIn(5);
    if (!none && grad.dim() == 2) grad = grad.t().contiguous().t();
    if (!none) parameter.mutable_grad() = grad;
    if (none) grad = at::zeros_like(parameter).detach();
    if (plan.parameter(i).has_sync()) {
      ADJOIN_ASSIGN_OR_RETURN(const auto movement, CreateMovement(plan.parameter(i).sync(), &other));
      const at::NoGradGuard no_grad;
      grad = movement->Forward(grad);
    }
    expected.push_back(grad);
  }
  ADJOIN_RETURN_IF_ERROR(sync->Sync());
  std::vector<at::Tensor> found;
  for (int i = 0; i < plan.parameter_size(); ++i) found.push_back(parameters.tensor(i).grad());
  return Compare(plan, found, expected);
}

bool HasParts(const LayoutPlan& home) {
  for (int axis = 0; axis < home.mesh_size(); ++axis) {
    if (home.mesh(axis) > 1 && home.placement(axis) != "B") return true;
  }
  return false;
}

TEST(GradientSumsTest, BucketsHaveTheBitsOfSumsOfTheirOwn) {
  std::set<std::string> kinds;
  for (const int ranks : {2, 3, 4, 5, 16, 40}) {
    for (const char* type : {"float64", "float32"}) {
      const uint64_t seed = TestSeed(100 + ranks);
      RandomJobs random(seed);
      std::vector<int64_t> features;
      for (int i = 0; i < 18; ++i) features.push_back(random.Of<int64_t>({1, 3, 7, 10, 24, 33, 50, 64, 120, 300}));
      features.push_back(5);
      const auto plan = PlanOf(MlpText(ranks, features, type, ranks % 2 == 0 && ranks > 2), {{"data", 4 * ranks}});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const auto sums = GradientSums(*plan);
      ASSERT_TRUE(sums.ok()) << sums.status();
      for (const GradientSum& sum : *sums) {
        const bool several = sum.parameters.size() > 1;
        kinds.insert(absl::StrCat(several ? "several" : "one", sum.rows > 1 ? " in rows" : "",
                                  several && HasParts(sum.movement.to()) ? " of parts" : ""));
      }
      const absl::Status status = RunRanks(ranks, TransportKind::kInMemoryDelayed, seed, [&](Transport& transport) {
        return CompareBuckets(*plan, seed, transport);
      });
      EXPECT_TRUE(status.ok()) << ranks << " ranks, " << type << ": " << status << " (ADJOIN_TEST_SEED=" << seed << ")";
    }
  }
  EXPECT_THAT(kinds, ::testing::IsSupersetOf({"one", "several", "several in rows", "several of parts"}));
}

// Two micro-batches and two steps.
absl::Status CompareWithLateSums(const Plan& plan, uint64_t seed, Transport& transport) {
  ADJOIN_ASSIGN_OR_RETURN(const auto rank, RankOfNetwork::Create(plan, transport));
  for (uint64_t step = 0; step < 2; ++step) {
    std::vector<at::Tensor> late;
    for (const bool in_backward : {false, true}) {
      for (const uint64_t part : {0, 1}) {
        ADJOIN_RETURN_IF_ERROR(rank->Pass(plan, FieldsOf(plan, seed + 2 * step + part), in_backward && part == 1));
      }
      ADJOIN_RETURN_IF_ERROR(rank->sync->Sync());
      std::vector<at::Tensor> gradients = rank->TakeGradients();
      if (in_backward) ADJOIN_RETURN_IF_ERROR(Compare(plan, gradients, late));
      late = std::move(gradients);
    }
  }
  return absl::OkStatus();
}

TEST(GradientSumsTest, SumsInTheBackwardPassHaveTheBitsOfSumsAfterIt) {
  for (const int ranks : {1, 2, 3, 4}) {
    const uint64_t seed = TestSeed(200 + ranks);
    const auto plan = PlanOf(MixedText(ranks), {{"data", 64}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const TransportKind kind : {TransportKind::kInMemoryDelayed, TransportKind::kUcxSharedMemory}) {
      const absl::Status status = RunRanks(
          ranks, kind, seed, [&](Transport& transport) { return CompareWithLateSums(*plan, seed, transport); });
      EXPECT_TRUE(status.ok()) << ranks << " ranks over " << kind << ": " << status << " (ADJOIN_TEST_SEED=" << seed
                               << ")";
    }
  }
}

TEST(GradientSumsTest, ManySmallGradientsTakeFewMessages) {
  for (const int ranks : {2, 4}) {
    const auto plan = PlanOf(MlpText(ranks, std::vector<int64_t>(41, 5), "float32", false), {{"data", 64}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->parameter_size(), 80);
    std::set<int64_t> own, all;
    for (const ParameterPlan& parameter : plan->parameter()) own.insert(parameter.sync().id());
    std::vector<size_t> messages(ranks), of_sums(ranks);
    const absl::Status status = RunRanks(ranks, TransportKind::kInMemory, 1, [&](Transport& inner) -> absl::Status {
      NotingTransport transport(&inner);
      ADJOIN_ASSIGN_OR_RETURN(const auto rank, RankOfNetwork::Create(*plan, transport));
      ADJOIN_RETURN_IF_ERROR(rank->Pass(*plan, FieldsOf(*plan, 1), /*sums=*/true));
      ADJOIN_RETURN_IF_ERROR(rank->sync->Sync());
      messages[inner.rank()] = transport.sent.size();
      for (const Tag::Fields& tag : transport.sent) of_sums[inner.rank()] += own.count(tag.op);
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
    // 80 gradients to each of the others, one by one; 9,600 bytes in one bucket.
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(of_sums[rank], static_cast<size_t>(ranks - 1)) << "rank " << rank << " of " << ranks;
      EXPECT_EQ(messages[rank], of_sums[rank]) << "nothing else moves";
    }
    const auto sums = GradientSums(*plan);
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(sums->size(), 1u);
  }
}

// Weights too large for a bucket, in layers that also exchange halos.
std::string LargeConvolutions(int ranks) {
  std::string text = absl::StrCat("name: \"large\" kind: TRAIN ranks: ", ranks,
                                  " seed: 2\nlayout { name: \"rows\" partition: [1, 1, ", ranks, ", 1] }\n");
  for (int i = 1; i <= 4; ++i) {
    absl::StrAppend(&text, "layer { name: \"c", i, "\" ", i == 1 ? "input: \"x\" x: \"rows\" " : "",
                    "conv { out_channels: 48 window { kernel: 3 pad_lo: 1 } } }\n");
  }
  absl::StrAppend(&text, R"(layer { name: "mean" pool { mode: "avg" adaptive_size: [1, 1] } }
layer { name: "flat" flatten {} }
layer { name: "fc" linear { out_features: 5 } }
loss { kind: "cross_entropy" input: "fc" target: "label" })");
  return text + absl::StrReplaceAll(kData, {{"SHAPE", "8, 12, 6"}, {"BATCH", "2"}, {"TYPE", "float64"}});
}

int64_t OperatorNamed(const Plan& plan, const std::string& name) {
  for (const OperatorPlan& op : plan.program(0).op()) {
    if (op.name() == name) return op.id();
  }
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.sync().name() == name) return parameter.sync().id();
  }
  return -1;
}

TEST(GradientSumsTest, ASumLeavesBeforeTheLayersBeforeItAreThrough) {
  for (const int ranks : {2, 4}) {
    const auto plan = PlanOf(LargeConvolutions(ranks), {{"data", 64}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Status status = RunRanks(ranks, TransportKind::kInMemory, 1, [&](Transport& inner) -> absl::Status {
      NotingTransport transport(&inner);
      ADJOIN_ASSIGN_OR_RETURN(const auto rank, RankOfNetwork::Create(*plan, transport));
      ADJOIN_RETURN_IF_ERROR(rank->Pass(*plan, FieldsOf(*plan, 1), /*sums=*/true));
      const auto first = [&](const std::string& name, Direction direction) -> size_t {
        const int64_t op = OperatorNamed(*plan, name);
        const auto found = std::find_if(transport.sent.begin(), transport.sent.end(), [&](const Tag::Fields& tag) {
          return tag.op == op && tag.direction == direction;
        });
        return found - transport.sent.begin();
      };
      // Halos go back from c4 to c2; c1 reads what needs no gradient.
      const std::vector<size_t> order = {
          first("c4.x", Direction::kAdjoint), first("sync.c4.weight", Direction::kForward),
          first("c3.x", Direction::kAdjoint), first("sync.c3.weight", Direction::kForward),
          first("c2.x", Direction::kAdjoint), first("sync.c2.weight", Direction::kForward)};
      for (size_t i = 0; i < order.size(); ++i) {
        if (order[i] >= transport.sent.size() || (i > 0 && order[i] <= order[i - 1])) {
          return absl::InternalError(
              absl::StrCat("message ", i, " of them left as number ", order[i], " of ", transport.sent.size()));
        }
      }
      return rank->sync->Sync();
    });
    EXPECT_TRUE(status.ok()) << ranks << " ranks: " << status;
  }
}

TEST(GradientSumsTest, ASecondPassBeforeSyncIsRefused) {
  const auto plan = PlanOf(LargeConvolutions(2), {{"data", 64}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::vector<absl::Status> statuses =
      RunRanksCollect(2, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
        ADJOIN_ASSIGN_OR_RETURN(const auto rank, RankOfNetwork::Create(*plan, transport));
        return rank->Pass(*plan, FieldsOf(*plan, 1), /*sums=*/true, /*twice=*/true);
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("before Sync"));
  }
}

// A rank that is killed when it comes to its third sum, while the first two are in flight.
TEST(GradientSumsTest, AKilledRankEndsTheStepOfAll) {
  for (const TransportKind kind : {TransportKind::kInMemory, TransportKind::kUcxSharedMemory}) {
    const auto plan = PlanOf(LargeConvolutions(4), {{"data", 64}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Time start = absl::Now();
    const std::vector<absl::Status> statuses = RunRanksCollect(4, kind, 1, [&](Transport& inner) -> absl::Status {
      NotingTransport transport(&inner);
      if (inner.rank() == 2) transport.BreakAt(OperatorNamed(*plan, "sync.c2.weight"));
      ADJOIN_ASSIGN_OR_RETURN(const auto rank, RankOfNetwork::Create(*plan, transport));
      ADJOIN_RETURN_IF_ERROR(rank->Pass(*plan, FieldsOf(*plan, 1), /*sums=*/true));
      return rank->sync->Sync();
    });
    for (const absl::Status& status : statuses) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("the rank was killed")) << status;
    }
    EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  }
}

TEST(GradientSumsTest, AWaitForARankThatStartsNoSumHasADeadline) {
  const auto plan = PlanOf(MlpText(2, {6, 200, 5}, "float64", false), {{"data", 64}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::vector<absl::Status> statuses =
      RunRanksCollect(2, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
        const bool waits = transport.rank() == 0;
        ADJOIN_ASSIGN_OR_RETURN(const auto rank,
                                RankOfNetwork::Create(*plan, transport, waits ? absl::Seconds(1) : absl::Seconds(60)));
        ADJOIN_RETURN_IF_ERROR(rank->Pass(*plan, FieldsOf(*plan, 1), /*sums=*/waits));
        if (waits) return rank->sync->Sync();
        // Does nothing until the other rank gives up.
        return rank->network->SumOverRanks({1}).status();
      });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("sync.l"));
  EXPECT_FALSE(statuses[1].ok());
}

}  // namespace
}  // namespace adjoin
