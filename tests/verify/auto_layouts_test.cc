// Networks of which nothing says how they are cut (random_network.h), cut by the planner's search for two to eight
// ranks: none is refused, and each computes what serial LibTorch computes. The rates are drawn as well, so that
// whatever pays on some machine is chosen: small networks would be left on one rank by rates as they are.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <string>

#include <google/protobuf/text_format.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/auto/auto_plan.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "planner/time/cost_model.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/rates.pb.h"
#include "tests/verify/random_network.h"
#include "tests/verify/serial_difference.h"
#include "tests/vs_serial/random_jobs.h"

#ifndef ADJOIN_NETWORKS
#define ADJOIN_NETWORKS 15
#endif

namespace adjoin {
namespace {

constexpr int kMostShown = 12;

// Kernels that take seconds, and movements that take between nothing and as much.
RateTable DrawRates(RandomJobs& random) {
  const auto between = [&](int64_t lo, int64_t hi) { return std::pow(10.0, random.Between(lo, hi)); };
  RateTable rates;
  rates.set_machine("drawn");
  for (const char* kind : {"copy", "conv", "linear", "attention"}) {
    const double forward = between(-4, -2), backward = between(-4, -2);  // of a byte or an operation
    for (const double work : {1e2, 1e6}) {
      KernelRate& rate = *rates.add_kernel();
      rate.set_kind(kind);
      rate.set_dtype("float32");
      rate.set_bytes(rate.kind() == "copy" ? work : 0);
      rate.set_flops(rate.kind() == "copy" ? 0 : work);
      rate.set_forward_seconds(forward * work);
      rate.set_backward_seconds(backward * work);
    }
  }
  LaneRate& lane = *rates.add_lane();
  lane.set_lane("memory");
  lane.set_round_seconds(between(-9, -2));
  lane.set_message_seconds(between(-9, -2));
  lane.set_byte_seconds(between(-9, -3));
  lane.set_pack_byte_seconds(between(-9, -4));
  lane.set_add_byte_seconds(between(-9, -4));
  return rates;
}

std::string TextOf(const JobSpec& spec) {
  std::string text;
  return google::protobuf::TextFormat::PrintToString(spec, &text) ? text : "";
}

class Searches {
 public:
  // "" where the network, searched and cut, is what it should be.
  std::string WrongWith(const RandomNetwork& network, uint64_t seed) {
    RandomJobs random(seed);
    const auto parsed = ParseSpec(network.text, "network.textproto");
    if (!parsed.ok()) return parsed.status().ToString();
    const auto model = CostModel::Create(DrawRates(random));
    if (!model.ok()) return model.status().ToString();
    AutoOptions options;
    options.ranks = random.Between(2, 8);
    options.explain = random.OneIn(4);
    JobSpec job = parsed->spec;
    if (seed % 3 == 0) {
      job.set_ranks(static_cast<uint32_t>(options.ranks));
      for (int64_t rank = 0; rank < options.ranks; ++rank) {
        job.add_rank_weight(static_cast<double>((seed / 3 + 5 * rank) % 7 + 1));
      }
    }
    const auto chosen = PlanAutomatically(job, {{"data", 1000}}, BuiltinLayerRules(), *model, options);
    if (!chosen.ok()) return absl::StrCat("refused for ", options.ranks, " ranks: ", chosen.status().ToString());
    const std::string wrong = WrongWithPlan(*chosen, seed);
    if (!wrong.empty() || random.OneIn(2)) return wrong;

    options.memory_bytes = chosen->memory.bytes * random.Between(50, 95) / 100;
    const auto limited = PlanAutomatically(job, {{"data", 1000}}, BuiltinLayerRules(), *model, options);
    if (absl::IsResourceExhausted(limited.status())) return "";
    if (!limited.ok()) return absl::StrCat("refused with a limit: ", limited.status().ToString());
    ++limited_;
    if (limited->memory.bytes > options.memory_bytes) return "the plan takes more memory than is allowed";
    return WrongWithPlan(*limited, seed);
  }

  int cut() const { return cut_; }
  int limited() const { return limited_; }

 private:
  // The layouts are ordinary text, which gives the same plan, and the job computes what one rank does.
  std::string WrongWithPlan(const AutoPlan& chosen, uint64_t seed) {
    const SearchReport& report = chosen.report;
    if (!(report.lower_bound_seconds() <= report.chosen_seconds() * (1 + 1e-9))) return "the bound is above the choice";
    const auto parsed = ParseSpec(TextOf(chosen.spec), "chosen.textproto");
    if (!parsed.ok()) return absl::StrCat("what is written cannot be read: ", parsed.status().ToString());
    auto again = Planner::Build(parsed->spec, {{"data", 1000}}, BuiltinLayerRules());
    if (!again.ok()) return absl::StrCat("what is written is refused: ", again.status().ToString());
    ReadHalosFromFiles(&*again);
    if (Planner::Hash(*again) != Planner::Hash(chosen.plan)) return "what is written gives another plan";
    for (const ValuePlan& value : chosen.plan.program(0).value()) {
      if (value.layout().rank_size() < 2) continue;
      ++cut_;
      break;
    }
    const std::string wrong = DifferenceFromSerial(*parsed, seed);
    return wrong.empty() ? "" : absl::StrCat(wrong, "\nas cut:\n", TextOf(chosen.spec));
  }

  int cut_ = 0, limited_ = 0;
};

TEST(AutoLayoutsTest, RandomNetworksAreCutAndEqualSerialPyTorch) {
  const uint64_t first = TestSeed(5000);
  std::map<std::string, int> wrong;
  Searches searches;
  for (uint64_t seed = first; seed < first + ADJOIN_NETWORKS; ++seed) {
    const RandomNetwork network = DrawUncutNetwork(seed);
    const std::string message = searches.WrongWith(network, seed);
    if (message.empty()) continue;
    if (++wrong[KindOfMessage(message)] > 1 || wrong.size() > kMostShown) continue;
    ADD_FAILURE() << message << "\nADJOIN_TEST_SEED=" << seed << "\n" << network.text;
  }
  for (const auto& [kind, count] : wrong) ADD_FAILURE() << count << " of " << ADJOIN_NETWORKS << ": " << kind;
  std::cout << searches.cut() << " plans over several ranks, " << searches.limited() << " under a limit of memory\n";
  EXPECT_GT(searches.cut(), ADJOIN_NETWORKS / 2) << "most are left on one rank";
}

TEST(AutoLayoutsTest, NetworksThatWereRefusedOnceAreNot) {
  Searches searches;
  // Homes of a group whose norm has buffers only; a reshape that moves its input where the job does not name it.
  for (const uint64_t seed : {5088, 5117}) {
    const RandomNetwork network = DrawUncutNetwork(seed);
    EXPECT_EQ(searches.WrongWith(network, seed), "") << "ADJOIN_TEST_SEED=" << seed << "\n" << network.text;
  }
}

}  // namespace
}  // namespace adjoin
