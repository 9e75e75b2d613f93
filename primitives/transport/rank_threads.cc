#include "primitives/transport/rank_threads.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/barrier.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "primitives/transport/in_memory_transport.h"

namespace adjoin {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(20);  // from the watchdog's abort to the end of the process

// What the ranks' threads and the watchdog share.
class Run {
 public:
  Run(std::vector<std::unique_ptr<Transport>> transports, std::function<absl::Status(Transport&)> fn,
      absl::Duration timeout)
      : transports_(std::move(transports)),
        fn_(std::move(fn)),
        deadline_(Deadline::After(timeout)),
        timeout_(timeout),
        statuses_(transports_.size()),
        returned_(transports_.size(), false) {}

  // Every rank's status; `first` becomes the rank whose error came first, or -1.
  std::vector<absl::Status> Go(int* first) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < transports_.size(); ++r) {
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
    Transport& transport = *transports_[rank];
    absl::Status status = fn_(transport);
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
    for (size_t r = 0; r < transports_.size(); ++r) {
      if (static_cast<int>(r) != rank) transports_[r]->Abort(reason);
    }
  }

  void Watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    auto all_returned = [this] { return finished_ == returned_.size(); };
    if (finished_changed_.wait_until(lock, deadline_.when(), all_returned)) return;
    AbortOthers(-1, absl::DeadlineExceededError(absl::StrCat("the watchdog of the ranks' threads ended it after ",
                                                             absl::FormatDuration(timeout_))));
    if (finished_changed_.wait_until(lock, Deadline::After(kGrace).when(), all_returned)) return;
    for (size_t r = 0; r < returned_.size(); ++r) {
      if (!returned_[r]) std::fprintf(stderr, "rank %zu did not return, not even after Abort\n", r);
    }
    std::abort();
  }

  const std::vector<std::unique_ptr<Transport>> transports_;
  const std::function<absl::Status(Transport&)> fn_;
  const Deadline deadline_;
  const absl::Duration timeout_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable finished_changed_;
  std::vector<absl::Status> statuses_;
  std::vector<bool> returned_;
  size_t finished_ = 0;
  int first_ = -1;
};

}  // namespace

std::vector<absl::Status> RunRankThreads(std::vector<std::unique_ptr<Transport>> transports,
                                         std::function<absl::Status(Transport&)> fn, absl::Duration timeout,
                                         int* first) {
  return Run(std::move(transports), std::move(fn), timeout).Go(first);
}

std::vector<absl::Status> RunConnectedRankThreads(std::vector<std::unique_ptr<Transport>> transports,
                                                  std::function<absl::Status(Transport&)> fn, absl::Duration timeout,
                                                  int* first) {
  std::vector<std::string> addresses;
  for (const auto& transport : transports) addresses.push_back(transport->Address());
  const Deadline deadline = Deadline::After(timeout);
  // A rank that fails at once would otherwise end the Connect of a slower one. All come here: Connect has a deadline.
  const auto all_connected = std::make_shared<absl::Barrier>(static_cast<int>(transports.size()));
  const auto connected = [=, fn = std::move(fn), addresses = std::move(addresses)](Transport& transport) {
    const absl::Status status = transport.Connect(addresses, deadline);
    all_connected->Block();
    return status.ok() ? fn(transport) : status;
  };
  return RunRankThreads(std::move(transports), connected, timeout, first);
}

absl::Status RunRanksInMemory(int n, std::function<absl::Status(Transport&)> fn, absl::Duration timeout) {
  ADJOIN_ASSIGN_OR_RETURN(auto fabric, InMemoryFabric::Create(n, {}));
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < n; ++rank) {
    ADJOIN_ASSIGN_OR_RETURN(auto transport, fabric->CreateTransport(rank));
    transports.push_back(std::move(transport));
  }
  int first = -1;
  const std::vector<absl::Status> statuses = RunRankThreads(std::move(transports), std::move(fn), timeout, &first);
  if (first < 0) return absl::OkStatus();
  return absl::Status(statuses[first].code(), absl::StrCat("rank ", first, ": ", statuses[first].message()));
}

}  // namespace adjoin
