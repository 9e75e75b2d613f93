// The ranks of a test as threads that sum numbers with each other.
//
//   SumsOfThreads all(3);
//   std::vector<absl::Status> statuses = all.Run([&](int rank, const RankSums& sums) { return
//   writers[rank]->Finish(..., sums); });
//
// Where one rank never comes to a sum, it fails on the others with kDeadlineExceeded.
#ifndef ADJOIN_WORKER_CHECKPOINT_RANK_SUMS_OF_THREADS_H_
#define ADJOIN_WORKER_CHECKPOINT_RANK_SUMS_OF_THREADS_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/checkpoint/rank_sums.h"

namespace adjoin {

class SumsOfThreads {
 public:
  explicit SumsOfThreads(int ranks) : ranks_(ranks) {}

  // Runs `work` on all ranks and returns their statuses. May be called again where all ranks made the same sums.
  std::vector<absl::Status> Run(const std::function<absl::Status(int rank, const RankSums& sums)>& work) {
    std::vector<absl::Status> statuses(ranks_);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back(
          [&, rank] { statuses[rank] = work(rank, [this](const std::vector<double>& mine) { return Sum(mine); }); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

 private:
  absl::StatusOr<std::vector<double>> Sum(const std::vector<double>& mine) {
    absl::MutexLock lock(&mutex_);
    if (arrived_ == 0) sum_.assign(mine.size(), 0);
    if (mine.size() != sum_.size()) return absl::InternalError("the ranks sum different numbers");
    for (size_t i = 0; i < mine.size(); ++i) sum_[i] += mine[i];
    const int64_t turn = turn_;
    if (++arrived_ == ranks_) {
      told_ = sum_;
      arrived_ = 0;
      ++turn_;
    }
    const auto over = [&] { return turn_ != turn; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&over), absl::Seconds(20))) {
      return absl::DeadlineExceededError("some rank does not come to a sum");
    }
    return told_;
  }

  const int ranks_;
  absl::Mutex mutex_;
  int arrived_ = 0;
  int64_t turn_ = 0;
  std::vector<double> sum_;
  std::vector<double> told_;  // the last sum; valid until the next turn is over
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_RANK_SUMS_OF_THREADS_H_
