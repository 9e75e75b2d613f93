// What tests of sessions share: a small job with its data in a folder of the test's own, run by threads.
//
//   TEST_F(SessionTest, ...) {
//     spec_.mutable_train()->set_steps(1);
//     ASSERT_TRUE(Run().ok());
//     EXPECT_EQ(Metrics()[0]["step"], 1);
//   }
#ifndef ADJOIN_WORKER_SESSION_SESSION_FIXTURE_H_
#define ADJOIN_WORKER_SESSION_SESSION_FIXTURE_H_

#include <stdlib.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/comm/local_memory.h"
#include "primitives/testing/rank_memory.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/data/idx_test_files.h"
#include "worker/session/session.h"

namespace adjoin {

// 21 images of 6x6 whose class is the brighter of the upper and the lower half; a batch of 4 leaves one over.
inline constexpr int64_t kSamples = 21;

inline constexpr char kJob[] = R"(
name: "small" kind: TRAIN ranks: 2 seed: 3
layout { name: "rows" partition: [1, 1, 2, 1] }
layer { name: "conv" input: "image" x: "rows" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu" activation { fn: "relu" } }
layout { name: "all" partition: [1, 1, 1, 1] rank: [1] }
layer { name: "together" y: "all" repartition {} }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "set" shuffle: true
  field { name: "image" idx { path: "images" } shape: [1, 6, 6] scale: 0.0039 }
  field { name: "label" idx { path: "labels" } dtype: "int64" } }
train { dataset: "set" batch: 4 epochs: 3 optimizer { sgd { lr: 0.1 momentum: 0.9 } } }
evaluate { dataset: "set" metric: "accuracy" }
output_dir: "out/small"
)";

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    ASSERT_EQ(system(("rm -rf " + root_ + " && mkdir -p " + root_).c_str()), 0);
    std::vector<double> images;
    std::vector<double> labels;
    for (int64_t i = 0; i < kSamples * 36; ++i) {
      const bool lower = i % 36 >= 18;
      images.push_back(lower == (i / 36 % 2 == 1) ? 150 + i * 7 % 100 : i * 11 % 100);
    }
    for (int64_t i = 0; i < kSamples; ++i) labels.push_back(i % 2);
    WriteFile(root_ + "images", Gzip(IdxBytes(IdxType::kUInt8, {kSamples, 6, 6}, images)));
    WriteFile(root_ + "labels", IdxBytes(IdxType::kUInt8, {kSamples}, labels));
    spec_ = ParseSpec(kJob, "job").value().spec;
  }

  // `adapt` changes the options of each rank.
  using Adapt = std::function<void(int rank, SessionOptions& options)>;

  absl::Status Run(const Adapt& adapt = nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const RankFunction run, Prepared(adapt));
    return RunRanks(spec_.ranks(), TransportKind::kInMemoryDelayed, 4, run);
  }

  // Every rank's own status.
  std::vector<absl::Status> RunCollect(const Adapt& adapt = nullptr) {
    const absl::StatusOr<RankFunction> run = Prepared(adapt);
    if (!run.ok()) return {run.status()};
    return RunRanksCollect(spec_.ranks(), TransportKind::kInMemoryDelayed, 4, *run);
  }

  absl::StatusOr<RankFunction> Prepared(const Adapt& adapt) {
    ADJOIN_ASSIGN_OR_RETURN(plan_, Planner::Build(spec_, {{"set", kSamples}}, BuiltinLayerRules()));
    results_.assign(spec_.ranks(), {});
    progress_.assign(spec_.ranks(), {});
    return RankFunction([this, adapt](Transport& t) -> absl::Status {
      ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory,
                              MemoryOfRank(TransportKind::kInMemoryDelayed, t.rank(), 4));
      SessionOptions options;
      options.memory = memory.get();
      options.plan = plan_;
      options.data_root = root_;
      options.output_root = root_;
      options.transport = &t;
      options.timeout = absl::Seconds(20);
      options.on_progress = [&](const JobProgress& p) { progress_[t.rank()].push_back(p); };
      options.log = [this](const std::string& line) {
        std::lock_guard<std::mutex> lock(mutex_);
        log_ += line + "\n";
      };
      if (adapt) adapt(t.rank(), options);
      ADJOIN_ASSIGN_OR_RETURN(results_[t.rank()], RunSession(options));
      return absl::OkStatus();
    });
  }

  // The lines of metrics.jsonl: those of memory, of types "plan" and "memory", or the others.
  std::vector<nlohmann::json> Metrics(bool of_memory = false) const {
    std::vector<nlohmann::json> lines;
    std::ifstream in(root_ + "out/small/metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      nlohmann::json parsed = nlohmann::json::parse(line);
      if ((parsed["type"] == "plan" || parsed["type"] == "memory") == of_memory) lines.push_back(std::move(parsed));
    }
    return lines;
  }

  std::string root_;
  JobSpec spec_;
  Plan plan_;
  std::vector<SessionResult> results_;
  std::vector<std::vector<JobProgress>> progress_;
  std::mutex mutex_;
  std::string log_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_FIXTURE_H_
