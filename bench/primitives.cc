// Times Adjoin's operators on tensors between processes of this machine, and prints one line for each:
// implementation, operator, ranks, bytes, median and least us (protocol.h). Every operator's result is checked first.
//
//   bazel-bin/bench/primitives --ops broadcast,halo --ranks 4 --bytes 1024,1048576
//
// Further operators, by name only: image_halo (1x8x512x512, kernel 3, cut by rows), image_refresh (the same in a padded
// tensor that stays) and work_halo (200 us of work, then the halo of a patch of 8 KiB). primitives.py compares with
// other libraries. With --channels both, each line is followed by the same without the memory that ranks share
// ("adjoin_by_ucx"), measured right after it.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "bench/bench_ranks.h"
#include "bench/operator_cases.h"
#include "bench/protocol.h"
#include "primitives/comm/communicator.h"
#include "primitives/device/device.h"
#include "primitives/open_device.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_memory.h"
#include "primitives/transport/transport.h"

namespace adjoin {
namespace {

constexpr int64_t kTimesId = 65000;  // above those of OperatorCases
// Executions of each root whose result is looked at: the first ones go over UCX, the others through shared memory.
constexpr int kChecked = 5;
constexpr int64_t kMostCheckedBytes = 256 << 10;

struct Flags {
  std::vector<std::string> ops = OperatorCases::Names();
  std::vector<int> ranks = {2, 4};
  std::vector<int64_t> bytes = {1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
  bool autograd = false;
  std::string device = "cpu";
  std::string gpu_direct = "auto";
  std::string channels = "on";
  int repeat = 1;
  bool quick = false;
  double timeout = 300;  // seconds
};

GpuDirect GpuDirectOf(const std::string& text) {
  return text == "off" ? GpuDirect::kOff : text == "required" ? GpuDirect::kRequired : GpuDirect::kAuto;
}

// A communicator over one kind of transport, and what is measured with it.
struct Kind {
  std::string suffix;  // of the implementation's name
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Communicator> communicator;
  std::optional<SlowestTime> slowest;
  std::unique_ptr<OperatorCases> cases;
};

absl::StatusOr<Kind> MakeKind(BenchRank rank, const Flags& flags, const OpenedDevice& opened, bool channels) {
  const absl::Duration timeout = absl::Seconds(flags.timeout);
  Kind kind;
  kind.suffix = channels ? "" : "_by_ucx";
  ADJOIN_ASSIGN_OR_RETURN(kind.transport,
                          ConnectBenchRank(rank, timeout, opened.device, GpuDirectOf(flags.gpu_direct), channels));
  kind.communicator =
      std::make_unique<Communicator>(kind.transport.get(), opened.memory.get(), Communicator::Options{0, timeout});
  ADJOIN_ASSIGN_OR_RETURN(SlowestTime slowest, SlowestTime::Create(kind.communicator.get(), kTimesId));
  kind.slowest = std::move(slowest);
  kind.cases = std::make_unique<OperatorCases>(kind.communicator.get(), flags.autograd);
  return kind;
}

absl::Status MeasureOne(Kind& kind, const Flags& flags, const std::string& op, int64_t bytes) {
  Communicator& communicator = *kind.communicator;
  OperatorCases& cases = *kind.cases;
  const bool work = op == "work_halo";
  ADJOIN_ASSIGN_OR_RETURN(const OperatorCase one, op == "image_halo"      ? cases.MakeImageHalo()
                                                  : op == "image_refresh" ? cases.MakeImageRefresh()
                                                                          : cases.Make(work ? "halo" : op, bytes));
  const int checked = bytes <= kMostCheckedBytes ? kChecked : 1;
  for (int i = 0; i < checked * communicator.size(); ++i) {
    if (!at::equal(one.run(i), one.expected(i))) {
      return absl::InternalError(absl::StrCat(op, " of ", bytes, " bytes: execution ", i, " has a wrong result"));
    }
  }
  const auto slowest = [&](double time) { return (*kind.slowest)(time) / one.messages; };
  const std::shared_ptr<DeviceStream> stream = communicator.memory().stream();
  const auto run = [&](int64_t i) {
    if (work) bench::Work();
    one.run(i);
    if (stream != nullptr) ThrowIfError(stream->Synchronize());  // an execution is over when its result is there
  };
  const bench::Counts counts = flags.quick ? bench::Counts{2, 1} : bench::CountsFor(bytes);
  const std::vector<double> times = bench::Measure(counts, run, slowest);
  if (communicator.rank() == 0) {
    std::string name = flags.autograd ? "adjoin_autograd" : "adjoin";
    if (flags.device != "cpu") absl::StrAppend(&name, "_", flags.device, flags.gpu_direct == "off" ? "_staged" : "");
    bench::Report(name + kind.suffix, op, communicator.size(), bytes, times);
  }
  return absl::OkStatus();
}

absl::Status MeasureAll(std::vector<Kind>& kinds, const Flags& flags) {
  for (int round = 0; round < flags.repeat; ++round) {
    for (const std::string& op : flags.ops) {
      std::vector<int64_t> sizes = flags.bytes;
      if (op == "image_halo" || op == "image_refresh") sizes = {bench::kImageRowBytes};
      if (op == "work_halo") sizes = {bench::kWorkHaloBytes};
      for (const int64_t bytes : sizes) {
        for (Kind& kind : kinds) ADJOIN_RETURN_IF_ERROR(MeasureOne(kind, flags, op, bytes));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunRank(BenchRank rank, const Flags& flags) {
  at::set_num_threads(1);
  ReuseTensorMemory();  // as the rank processes of a job do
  const absl::Duration timeout = absl::Seconds(flags.timeout);
  ADJOIN_ASSIGN_OR_RETURN(const OpenedDevice opened, OpenDevice(flags.device));
  std::vector<Kind> kinds;
  try {
    for (const bool channels : {true, false}) {
      if (flags.channels != "both" && channels != (flags.channels == "on")) continue;
      ADJOIN_ASSIGN_OR_RETURN(Kind kind, MakeKind(rank, flags, opened, channels));
      kinds.push_back(std::move(kind));
    }
    if (opened.device != nullptr && rank.rank == 0 && rank.size > 1) {
      std::fprintf(stderr, "%s, messages by %s\n", opened.device->name().c_str(),
                   kinds[0].transport->Describe(1).c_str());
    }
    ADJOIN_RETURN_IF_ERROR(MeasureAll(kinds, flags));
  } catch (...) {
    return StatusFromCurrentException();
  }
  for (const Kind& kind : kinds) ADJOIN_RETURN_IF_ERROR(kind.transport->Close(Deadline::After(timeout)));
  return absl::OkStatus();
}

int Report(const std::string& who, const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", who.c_str(), status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times Adjoin's operators on tensors", "primitives");
  app.add_option("--ops", flags.ops, "Operators, with commas between")->delimiter(',')->capture_default_str();
  app.add_option("--ranks", flags.ranks, "Numbers of ranks")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--bytes", flags.bytes, "Sizes")->delimiter(',')->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--device", flags.device, "Where the tensors are: cpu, cuda or cuda:N, the same for all ranks")
      ->capture_default_str();
  app.add_option("--gpu-direct", flags.gpu_direct, "Whether UCX moves a device's memory itself")
      ->check(CLI::IsMember({"off", "auto", "required"}))
      ->capture_default_str();
  app.add_option("--channels", flags.channels, "Whether short messages go through memory that ranks share")
      ->check(CLI::IsMember({"on", "off", "both"}))
      ->capture_default_str();
  app.add_flag("--autograd", flags.autograd, "By Apply, on a tape, instead of Forward");
  app.add_option("--repeat", flags.repeat, "Everything so often")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--quick", flags.quick, "One batch of two executions: whether it works, not how fast");
  app.add_option("--timeout", flags.timeout, "Seconds that the ranks of one number of ranks may take in all")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (const std::optional<int> code = ParseFlags(app, argc, argv)) return *code;

  if (const std::optional<BenchRank> rank = ThisBenchRank()) {
    return Report(absl::StrCat("rank ", rank->rank), RunRank(*rank, flags));
  }
  for (const int ranks : flags.ranks) {
    const int code = Report("primitives", RunBenchRanks(argv, ranks, Deadline::After(absl::Seconds(flags.timeout))));
    if (code != 0) return code;
  }
  return 0;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) { return adjoin::Main(argc, argv); }
