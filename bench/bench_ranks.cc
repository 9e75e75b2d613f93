#include "bench/bench_ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/all_gather.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/tensor_device.h"
#include "primitives/transport/rank_processes.h"
#include "primitives/transport/rendezvous.h"

namespace adjoin {
namespace {

// A folder for the ranks to meet in; removed with what is in it.
class MeetingFolder {
 public:
  ~MeetingFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  absl::StatusOr<std::string> Make() {
    std::string path = (std::filesystem::temp_directory_path() / "adjoin.XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("folder ", path, " cannot be made: ", strerror(errno)));
    }
    return path_ = path;
  }

 private:
  std::string path_;
};

}  // namespace

std::optional<BenchRank> ThisBenchRank() {
  const char* rank = getenv("BENCH_RANK");
  const char* size = getenv("BENCH_SIZE");
  BenchRank result;
  if (rank == nullptr || size == nullptr || !absl::SimpleAtoi(rank, &result.rank) ||
      !absl::SimpleAtoi(size, &result.size)) {
    return std::nullopt;
  }
  return result;
}

absl::Status RunBenchRanks(char** argv, int ranks, Deadline deadline) {
  MeetingFolder folder;
  ADJOIN_ASSIGN_OR_RETURN(const std::string path, folder.Make());
  std::vector<std::vector<std::string>> environments;
  for (int r = 0; r < ranks; ++r) {
    environments.push_back(
        {absl::StrCat("BENCH_RANK=", r), absl::StrCat("BENCH_SIZE=", ranks), absl::StrCat("BENCH_FOLDER=", path)});
  }
  ADJOIN_ASSIGN_OR_RETURN(const int code, RunRankProcesses(argv, environments, deadline));
  if (code == 124) return absl::DeadlineExceededError(absl::StrCat(ranks, " ranks took longer than --timeout"));
  return code == 0 ? absl::OkStatus() : absl::AbortedError(absl::StrCat("a rank of ", ranks, " ended with ", code));
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectBenchRank(BenchRank rank, absl::Duration timeout,
                                                            std::shared_ptr<Device> device, GpuDirect gpu_direct,
                                                            bool shared_channels) {
  TransportOptions options;
  options.rank = rank.rank;
  options.size = rank.size;
  options.other_nodes = false;
  options.device = std::move(device);
  options.gpu_direct = gpu_direct;
  options.shared_channels = shared_channels;
  return ConnectThroughFolder({getenv("BENCH_FOLDER"), shared_channels ? "shared" : "by-ucx"}, options,
                              Deadline::After(timeout));
}

absl::StatusOr<SlowestTime> SlowestTime::Create(Communicator* communicator, int64_t id) {
  std::vector<int> all;
  for (int r = 0; r < communicator->size(); ++r) all.push_back(r);
  ADJOIN_ASSIGN_OR_RETURN(const Layout each,
                          Layout::Partition({communicator->size()}, DType::kFloat64, {communicator->size()}, all));
  ADJOIN_ASSIGN_OR_RETURN(const Layout everywhere, Layout::Replicated({communicator->size()}, DType::kFloat64, all));
  ADJOIN_ASSIGN_OR_RETURN(auto gather, AllGather::Create(communicator, each, everywhere,
                                                         {.id = id, .name = "times", .differentiable = false}));
  return SlowestTime(std::move(gather), TensorDeviceOf(communicator->memory()));
}

double SlowestTime::operator()(double time) const {
  return gather_->Forward(at::full({1}, time, at::TensorOptions(device_).dtype(at::kDouble))).max().item<double>();
}

}  // namespace adjoin
