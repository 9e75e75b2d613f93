// CoordinationService with all that surrounds it simulated: daemons that keep the protocol, their ranks' processes,
// streams that break, a store, a clock, and crashes of each of them. Everything happens in the order of the calls.
//
//   SimulatedCluster cluster(/*daemons=*/3, /*slots=*/2);
//   cluster.Connect(0);
//   cluster.Submit(spec, "");
//   cluster.Commit();          // what the coordinator decided is in its store, and its messages are on their way
//   cluster.DaemonReads(0);    // the first of them arrives
//   cluster.CrashCoordinator();
//   cluster.Check();           // after every call: nothing runs twice, no slot and no GPU is used twice, what has
//                              // ended stays so
//
// A property that does not hold ends the process with a message (check.h).
#ifndef ADJOIN_TESTS_FUZZ_SIMULATED_CLUSTER_H_
#define ADJOIN_TESTS_FUZZ_SIMULATED_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/store/store.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class SimulatedCluster {
 public:
  static constexpr uint64_t kStoreId = 77;

  // Daemon i has i GPUs.
  SimulatedCluster(int daemons, uint32_t slots);

  // For callers and daemons beside those that are simulated. Another one after CrashCoordinator.
  CoordinationService& service() { return *service_; }
  ConnectionId NewConnection() { return ++last_connection_; }
  // True where the connection is one of a simulated daemon.
  bool IsOfDaemon(ConnectionId connection) const;
  // The job was retried through service().
  void MayRunAgain(const std::string& job_id) { retried_.insert(job_id); }
  // True where the store has the job in the state that it has now.
  bool IsCommitted(const std::string& job_id);

  // Time.
  void Advance(absl::Duration time);
  void Tick();
  // The wall clock is set, to either side: nothing but what people read may depend on it.
  void SetWallClock(absl::Duration ahead) { wall_ahead_ = ahead; }

  // Users. `key`: an idempotency key, or "". Jobs are named by any number: modulo what there is.
  void Submit(const JobSpec& spec, const std::string& key);
  void Cancel(uint32_t job);
  void Retry(uint32_t job);
  void Hold(uint32_t job, bool held);

  // The coordinator. Plans are made when asked for (`ok`: successfully). A crash forgets what was not committed.
  void MakePlans(bool ok);
  void Commit();
  void FailCommit();  // the store is full: the new submissions are refused
  void CrashCoordinator();

  // Daemons, their streams and ranks. What makes no sense now is ignored.
  void Connect(int daemon);
  void BreakStream(int daemon);
  void CrashDaemon(int daemon);  // its ranks die with it; a new incarnation comes up, not connected
  void DaemonReads(int daemon);
  bool CoordinatorReads(int daemon);  // false: there was no message
  void Heartbeat(int daemon, bool draining);
  void RankReady(int daemon, uint32_t which);
  void RankStep(int daemon, uint32_t which, uint64_t step);
  void RankEnds(int daemon, uint32_t which, RankEnd end);
  // A message on a connection that does not keep the protocol.
  void Garbage(int daemon, const WorkerMessage& message);

  void Check();
  // From here on all is well and every rank succeeds: every job that is not held has to end, and all slots to be free.
  // No job may be too large for the cluster.
  void ExpectEverythingEnds();

 private:
  static constexpr absl::Duration kLease = absl::Seconds(120);
  static int GpusOf(int daemon) { return daemon; }

  using AttemptKey = std::pair<std::string, uint64_t>;
  struct DaemonAttempt {
    std::map<uint32_t, RankReport> ranks;
    std::set<uint32_t> alive;  // ranks that have a process
    uint32_t gpus = 0;         // that each of them needs
    bool stopping = false;
    uint64_t store_id = 0;
  };
  struct Daemon {
    std::string name;
    uint64_t incarnation = 1;
    ConnectionId connection = 0;
    std::deque<CoordinatorMessage> inbox;
    std::deque<WorkerMessage> outbox;
    std::map<int64_t, absl::Duration> sent;  // heartbeats, by sequence
    int64_t sequence = 0;
    absl::Duration lease_from;
    std::map<AttemptKey, DaemonAttempt> attempts;
    std::map<std::string, uint64_t> newest;  // epoch seen, by job
  };
  struct Pick {
    AttemptKey key;
    uint32_t rank;
  };

  void StartCoordinator();
  void Deliver(std::vector<Action> actions);
  void Say(Daemon& daemon, uint64_t epoch, WorkerMessage message);
  void Obey(Daemon& daemon, const CoordinatorMessage& message);
  void Start(Daemon& daemon, uint64_t epoch, const StartRanks& start);
  void EndRank(Daemon& daemon, const AttemptKey& key, uint32_t rank, RankEnd end);
  std::vector<Pick> Alive(const Daemon& daemon) const;
  std::string JobId(uint32_t job) const;
  void Settle();
  std::string WhatWaits();

  const uint32_t slots_;
  absl::Duration now_ = absl::Seconds(1000);
  absl::Duration wall_ahead_;
  std::unique_ptr<CoordinationService> service_;
  std::vector<Daemon> daemons_;
  ConnectionId last_connection_ = 0;
  uint64_t last_pid_ = 0;
  uint64_t last_started_epoch_ = 0;
  std::set<uint64_t> started_epochs_;
  std::vector<PlanRequest> plan_requests_;
  std::set<std::string> retried_;  // since the last commit
  StoredState store_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_SIMULATED_CLUSTER_H_
