#include "primitives/transport/transport_ranks.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/transport/in_memory_transport.h"
#include "primitives/transport/on_device_transport.h"
#include "primitives/transport/ucx_transport.h"

namespace adjoin {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(20);  // from the watchdog's abort to the end of the process

struct Ranks {
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::string> addresses;  // of UCX workers
};

absl::StatusOr<Ranks> CreateRanks(int n, TransportKind kind, uint64_t seed) {
  Ranks ranks;
  if (kind != TransportKind::kUcxSharedMemory && kind != TransportKind::kUcxTcp) {
    ADJOIN_ASSIGN_OR_RETURN(auto fabric, InMemoryFabric::Create(n, {seed, kind != TransportKind::kInMemory}));
    for (int r = 0; r < n; ++r) {
      ADJOIN_ASSIGN_OR_RETURN(auto transport, fabric->CreateTransport(r));
      // The transport keeps the fabric, and so the device, alive.
      if (kind == TransportKind::kOnDevice) transport = OnDevice(std::move(transport), &fabric->fake_device());
      ranks.transports.push_back(std::move(transport));
    }
    return ranks;
  }
  for (int r = 0; r < n; ++r) {
    UcxTransport::Options options;
    options.rank = r;
    options.size = n;
    options.shared_memory = kind == TransportKind::kUcxSharedMemory;
    options.other_nodes = !options.shared_memory;
    ADJOIN_ASSIGN_OR_RETURN(auto transport, UcxTransport::Create(options));
    ranks.addresses.push_back(transport->Address());
    ranks.transports.push_back(std::move(transport));
  }
  return ranks;
}

// What the ranks' threads and the watchdog share.
class Run {
 public:
  Run(Ranks ranks, RankFunction fn, absl::Duration timeout)
      : ranks_(std::move(ranks)), fn_(std::move(fn)), deadline_(Deadline::After(timeout)), timeout_(timeout),
        statuses_(ranks_.transports.size()), returned_(ranks_.transports.size(), false) {}

  // Every rank's status; `first` becomes the rank whose error came first, or -1.
  std::vector<absl::Status> Go(int* first) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks_.transports.size(); ++r) {
      threads.emplace_back([this, r] { RunRank(static_cast<int>(r)); });
    }
    Watch();
    for (std::thread& thread : threads) thread.join();
    std::lock_guard<std::mutex> lock(mutex_);
    *first = first_;
    return statuses_;
  }

 private:
  void RunRank(int rank) {
    Transport& transport = *ranks_.transports[rank];
    absl::Status status;
    if (auto* ucx = dynamic_cast<UcxTransport*>(&transport)) status = ucx->Connect(ranks_.addresses, deadline_);
    if (status.ok()) status = fn_(transport);
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status.ok() && first_ < 0) {
      first_ = rank;
      AbortOthers(rank, absl::Status(status.code(), absl::StrCat("rank ", rank, ": ", status.message())));
    }
    statuses_[rank] = std::move(status);
    returned_[rank] = true;
    ++finished_;
    finished_changed_.notify_all();
  }

  void AbortOthers(int rank, const absl::Status& reason) {
    for (size_t r = 0; r < ranks_.transports.size(); ++r) {
      if (static_cast<int>(r) != rank) ranks_.transports[r]->Abort(reason);
    }
  }

  void Watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    auto all_returned = [this] { return finished_ == returned_.size(); };
    if (finished_changed_.wait_until(lock, deadline_.when(), all_returned)) return;
    AbortOthers(-1, absl::DeadlineExceededError(
                        absl::StrCat("the test's watchdog ended it after ", absl::FormatDuration(timeout_))));
    if (finished_changed_.wait_until(lock, Deadline::After(kGrace).when(), all_returned)) return;
    for (size_t r = 0; r < returned_.size(); ++r) {
      if (!returned_[r]) std::fprintf(stderr, "RunRanks: rank %zu did not return, not even after Abort\n", r);
    }
    std::abort();
  }

  Ranks ranks_;
  const RankFunction fn_;
  const Deadline deadline_;
  const absl::Duration timeout_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable finished_changed_;
  std::vector<absl::Status> statuses_;
  std::vector<bool> returned_;
  size_t finished_ = 0;
  int first_ = -1;
};

std::vector<absl::Status> RunAll(int n, TransportKind kind, uint64_t seed, RankFunction fn, absl::Duration timeout,
                                 int* first) {
  absl::StatusOr<Ranks> ranks = CreateRanks(n, kind, seed);
  if (!ranks.ok()) {
    *first = 0;
    return std::vector<absl::Status>(n, ranks.status());
  }
  return Run(*std::move(ranks), std::move(fn), timeout).Go(first);
}

}  // namespace

std::string ToString(TransportKind kind) {
  switch (kind) {
    case TransportKind::kInMemory: return "InMemory";
    case TransportKind::kInMemoryDelayed: return "InMemoryDelayed";
    case TransportKind::kOnDevice: return "OnDevice";
    case TransportKind::kUcxSharedMemory: return "UcxSharedMemory";
    case TransportKind::kUcxTcp: return "UcxTcp";
  }
  return "Unknown";
}

absl::Status RunRanks(int n, TransportKind kind, uint64_t seed, RankFunction fn, absl::Duration timeout) {
  int first = -1;
  const std::vector<absl::Status> statuses = RunAll(n, kind, seed, std::move(fn), timeout, &first);
  if (first < 0) return absl::OkStatus();
  return absl::Status(statuses[first].code(), absl::StrCat("rank ", first, ": ", statuses[first].message()));
}

std::vector<absl::Status> RunRanksCollect(int n, TransportKind kind, uint64_t seed, RankFunction fn,
                                          absl::Duration timeout) {
  int first = -1;
  return RunAll(n, kind, seed, std::move(fn), timeout, &first);
}

}  // namespace adjoin
