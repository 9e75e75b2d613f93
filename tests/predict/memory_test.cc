// The memory of tensors in prediction is that of one rank divided by the number of ranks, and halos.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>

#include <ATen/ops/randn.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "layers/rules/layout_proto.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/predict/job_run.h"
#include "tests/vs_serial/reported_total.h"
#include "worker/training/predictor.h"

namespace adjoin {
namespace {

constexpr char kJob[] = R"(
name: "net" kind: PREDICT ranks: RANKS seed: 1
layout { name: "grid" partition: [GRID] }
layer { name: "down.conv" input: "volume" x: "grid" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "down.norm" norm { kind: "batch" } }
layer { name: "down.relu" activation { fn: "relu" } }
layer { name: "pool" pool { mode: "max" window { kernel: 2 } } }
layer { name: "bottom.conv" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "bottom.relu" activation { fn: "relu" } }
layer { name: "up" conv { out_channels: 4 transposed: true window { kernel: 2 stride: 2 } } }
layer { name: "skip" input: ["down.relu", "up"] concat { arg: 1 } }
layer { name: "left.conv" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "left.relu" activation { fn: "relu" } }
layer { name: "head" conv { out_channels: 2 window { kernel: 1 } } }
dataset { name: "set" field { name: "volume" npy { path: "volumes.npy" } shape: [1, 32, 32, 32] } }
predict { dataset: "set" input: "head" format: "npy" }
weights { init_from: "w.safetensors" }
output_dir: "job"
)";

// Counts the bytes of the tensors that one thread makes, until it frees them: not those of a batch that is read ahead.
class LiveTensors : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* memory, int64_t bytes, ReportedTotal, ReportedTotal, c10::Device) override {
    if (bytes > 0) {
      sizes_[memory] = bytes;
      live_ += bytes;
    } else if (auto made = sizes_.find(memory); made != sizes_.end()) {
      live_ -= made->second;
      sizes_.erase(made);
    }
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  std::map<void*, int64_t> sizes_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

std::string SpecOf(int ranks, const std::string& grid) {
  return absl::StrReplaceAll(kJob, {{"RANKS", absl::StrCat(ranks)}, {"GRID", grid}});
}

// The most bytes of tensors on any rank, without the parameters, which every rank has whole.
absl::StatusOr<int64_t> PeakBytes(const std::string& spec, const JobFolder& folder, int64_t samples) {
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOfText(spec, {{"set", samples}}));
  std::mutex mutex;
  int64_t largest = 0;
  const auto run = [&](Transport& t) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&t, &memory, {.timeout = absl::Seconds(30)});
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, t.rank()));
    parameters.Initialise(1);
    const auto counted = std::make_shared<LiveTensors>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counted);
      const auto find = [&]() -> absl::StatusOr<std::string> { return folder.Path("output"); };
      ADJOIN_ASSIGN_OR_RETURN(auto predictor, Predictor::Create(plan, &communicator, &parameters, folder.Path("data"),
                                                                find, BuiltinLayers()));
      while (!predictor->done()) ADJOIN_RETURN_IF_ERROR(predictor->RunStep());
      ADJOIN_RETURN_IF_ERROR(predictor->Finish().status());
    }
    std::lock_guard<std::mutex> lock(mutex);
    largest = std::max(largest, counted->peak());
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(RunRanks(static_cast<int>(plan.spec().ranks()), TransportKind::kInMemory, 1, run));
  return largest;
}

// The bytes that all layers of one rank fetch beyond their own cells, as if all of them lived at once.
int64_t HaloBytes(const std::string& spec) {
  const Plan plan = PlanOfText(spec, {{"set", 1}}).value();
  int64_t cells = 0;
  for (const LayerPlan& layer : plan.program(0).layer()) {
    if (layer.halo().empty()) continue;
    const Layout x = LayoutFromProto(plan.program(0).value(static_cast<int>(layer.input(0))).layout()).value();
    std::vector<int64_t> read = x.LocalShape(0);
    int64_t own = 1, all = 1;
    for (int64_t extent : read) own *= extent;
    for (const OutputWindow& halo : layer.halo()) {
      int64_t most = 0;
      for (int part = 0; part < halo.left_size(); ++part) most = std::max(most, halo.left(part) + halo.right(part));
      read[halo.dim()] += most;
    }
    for (int64_t extent : read) all *= extent;
    cells += all - own;
  }
  return cells * 4;
}

TEST(PredictMemory, EachRankHoldsAtMostItsPartAndHalos) {
  const JobFolder folder("memory");
  folder.WriteArray("data/volumes.npy", at::randn({2, 1, 32, 32, 32}, at::kDouble));
  const auto one = PeakBytes(SpecOf(1, "1, 1, 1, 1, 1"), folder, 2);
  ASSERT_TRUE(one.ok()) << one.status();
  // The largest layer, left.conv, holds its input, its output, and LibTorch's copy of the input for each of the
  // window's 27 positions.
  const int64_t volume = 32 * 32 * 32 * 4;
  EXPECT_GE(*one, (8 + 4) * volume);
  EXPECT_LE(*one, (8 + 4 + 27 * 8) * volume) << "values are freed after their last reader";
  for (const auto& [ranks, grid] :
       std::map<int, std::string>{{2, "1, 1, 2, 1, 1"}, {4, "1, 1, 2, 2, 1"}, {8, "1, 1, 2, 2, 2"}}) {
    const std::string spec = SpecOf(ranks, grid);
    const auto each = PeakBytes(spec, folder, 2);
    ASSERT_TRUE(each.ok()) << each.status();
    // Where its input of 8 channels is cut, left.conv reads a copy of it, and zeros at the boundary.
    EXPECT_LE(*each, (*one + 10 * volume) / ranks + HaloBytes(spec)) << ranks << " ranks; one rank: " << *one;
    RecordProperty(absl::StrCat("bytes_on_", ranks), std::to_string(*each));
  }
}

}  // namespace
}  // namespace adjoin
