// Users who list all jobs again and again, and users who follow one job each, for bench/control_plane.
//
//   JobWatchers watchers({.connect = ..., .list = ..., .listers = 2, .followers = 50}, jobs);
//   ... wait ...
//   watchers.Stop();
//   std::vector<double> seconds = watchers.listings();
#ifndef ADJOIN_BENCH_JOB_WATCHERS_H_
#define ADJOIN_BENCH_JOB_WATCHERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

class JobWatchers {
 public:
  struct Settings {
    std::function<std::unique_ptr<Adjoin::Stub>()> connect;  // any thread, as `list`
    std::function<absl::Status()> list;                      // all jobs once
    int listers = 1;
    int followers = 1;
  };
  // `jobs`: ids, in the order of the queue; half of the followers take the first, half the last.
  JobWatchers(Settings settings, const std::vector<std::string>& jobs);
  ~JobWatchers() { Stop(); }
  JobWatchers(const JobWatchers&) = delete;
  JobWatchers& operator=(const JobWatchers&) = delete;

  void Stop();
  std::vector<double> listings() const;  // seconds; after Stop
  int64_t updates() const { return updates_; }
  int64_t failed() const { return failed_; }  // listings

 private:
  void ListUntilStopped(std::vector<double>& seconds);
  void Follow(grpc::ClientContext& context, const std::string& job);

  const Settings settings_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> updates_{0}, failed_{0};
  std::vector<std::vector<double>> listings_;  // of each lister
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::thread> threads_;
};

}  // namespace adjoin

#endif  // ADJOIN_BENCH_JOB_WATCHERS_H_
