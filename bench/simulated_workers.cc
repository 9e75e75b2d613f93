#include "bench/simulated_workers.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {

constexpr int kAtOnce = 100;  // workers that connect
// A worker is asked once a second whether a heartbeat is due: it sends one that is due within this time.
constexpr absl::Duration kSlack = absl::Milliseconds(500);

// One daemon's stream. gRPC calls it from its own threads.
class SimulatedWorkers::Worker : public grpc::ClientBidiReactor<WorkerMessage, CoordinatorMessage> {
 public:
  Worker(const Settings& settings, int number) : slots_(settings.slots) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own, as a daemon has
    stub_ = WorkerLink::NewStub(
        grpc::CreateCustomChannel(settings.coordinator, grpc::InsecureChannelCredentials(), arguments));
    stub_->async()->Connect(&context_, this);
    WorkerMessage message;
    WorkerHello& hello = *message.mutable_hello();
    hello.set_name(absl::StrCat("simulated-", settings.first + number));
    hello.set_address("127.0.0.1");
    hello.set_slots(slots_);
    hello.set_incarnation(static_cast<uint64_t>(absl::GetCurrentTimeNanos()) + number);
    hello.set_node_id(hello.name());
    for (const std::string& kind : settings.builders) hello.add_builder(kind);
    StartRead(&incoming_);
    StartCall();
    absl::MutexLock lock(&mutex_);
    Say(0, std::move(message));
  }

  void Beat() {
    absl::MutexLock lock(&mutex_);
    if (!welcomed_ || absl::Now() < due_) return;
    due_ = absl::Now() + between_ - kSlack;
    WorkerMessage message;
    Heartbeat& heartbeat = *message.mutable_heartbeat();
    heartbeat.set_sequence(++sequence_);
    for (const auto& [job, attempt] : attempts_) {
      AttemptPulse& pulse = *heartbeat.add_attempt();
      pulse.set_job_id(job);
      pulse.set_epoch(attempt.epoch);
      for (uint32_t number : attempt.ranks) {
        RankPulse& rank = *pulse.add_rank();
        rank.set_rank(number);
        rank.set_phase("training");
        rank.set_step(static_cast<uint64_t>(sequence_));
        rank.set_activity(COMPUTING);
        rank.set_process("running");
        rank.set_step_seconds(0.5);
      }
    }
    beats_[sequence_] = absl::Now();
    Say(0, std::move(message));
    if (absl::Now() < progress_due_) return;
    progress_due_ = absl::Now() + between_progress_ - kSlack;
    for (const auto& [job, attempt] : attempts_) {
      WorkerMessage progress;
      RankUpdate& update = *progress.mutable_rank_update();
      update.set_job_id(job);
      update.set_rank(*attempt.ranks.begin());
      update.mutable_progress()->set_step(static_cast<uint64_t>(sequence_));
      update.mutable_progress()->set_total_steps(1000000);
      update.mutable_progress()->set_phase("training");
      Say(attempt.epoch, std::move(progress));
    }
  }

  bool welcomed() {
    absl::MutexLock lock(&mutex_);
    return welcomed_;
  }
  bool over() {
    absl::MutexLock lock(&mutex_);
    return over_;
  }
  absl::Status end() {
    absl::MutexLock lock(&mutex_);
    return end_;
  }
  void TakeTimes(Times& times) {
    absl::MutexLock lock(&mutex_);
    times.heartbeat.insert(times.heartbeat.end(), times_.heartbeat.begin(), times_.heartbeat.end());
    times.restart.insert(times.restart.end(), times_.restart.begin(), times_.restart.end());
    times_ = Times();
  }
  void Stop() {
    context_.TryCancel();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&over_));
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      absl::MutexLock lock(&mutex_);
      Obey();
    }
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    outbox_.pop_front();
    if (ok && !outbox_.empty()) StartWrite(&outbox_.front());
  }
  void OnDone(const grpc::Status& status) override {
    absl::MutexLock lock(&mutex_);
    over_ = true;
    end_ = status.ok() ? absl::UnavailableError("the coordinator has ended the stream") : FromGrpc(status);
  }

 private:
  struct Attempt {
    uint64_t epoch = 0;
    std::set<uint32_t> ranks;
  };

  void Say(uint64_t epoch, WorkerMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    *message.mutable_header() = MakeHeader(epoch);
    outbox_.push_back(std::move(message));
    if (outbox_.size() == 1) StartWrite(&outbox_.front());
  }

  void Obey() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t epoch = incoming_.header().epoch();
    switch (incoming_.kind_case()) {
      case CoordinatorMessage::kWelcome: {
        welcomed_ = true;
        between_ = absl::Seconds(incoming_.welcome().heartbeat_seconds());
        break;
      }
      case CoordinatorMessage::kHeartbeatAck: {
        const double seconds = incoming_.heartbeat_ack().heartbeat_seconds();
        if (seconds > 0) between_ = absl::Seconds(seconds);
        between_progress_ = absl::Seconds(incoming_.heartbeat_ack().progress_seconds());
        auto beat = beats_.find(incoming_.heartbeat_ack().sequence());
        if (beat == beats_.end()) break;
        times_.heartbeat.push_back({beat->second, absl::ToDoubleSeconds(absl::Now() - beat->second)});
        beats_.erase(beat);
        break;
      }
      case CoordinatorMessage::kProbeData: AnswerProbe(); break;
      case CoordinatorMessage::kStartRanks: Start(epoch); break;
      case CoordinatorMessage::kStopAttempt: EndRanks(incoming_.stop_attempt().job_id(), epoch); break;
      default: break;
    }
  }

  void AnswerProbe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    WorkerMessage message;
    ProbeResult& result = *message.mutable_probe_result();
    result.set_request_id(incoming_.probe_data().request_id());
    for (const Dataset& dataset : incoming_.probe_data().dataset()) {
      DatasetSize& size = *result.add_dataset();
      size.set_name(dataset.name());
      size.set_samples(10000);
    }
    Say(0, std::move(message));
  }

  void Start(uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const StartRanks& start = incoming_.start_ranks();
    if (ended_ != absl::Time()) times_.restart.push_back({ended_, absl::ToDoubleSeconds(absl::Now() - ended_)});
    ended_ = absl::Time();
    Attempt& attempt = attempts_[start.job_id()];
    attempt.epoch = epoch;
    for (uint32_t number : start.rank()) {
      attempt.ranks.insert(number);
      WorkerMessage message;
      RankReady& ready = *message.mutable_rank_ready();
      ready.set_job_id(start.job_id());
      ready.set_rank(number);
      ready.set_pid(1);
      ready.set_transport_address("simulated");
      Say(epoch, std::move(message));
    }
  }

  void EndRanks(const std::string& job, uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto attempt = attempts_.find(job);
    if (attempt == attempts_.end() || attempt->second.epoch != epoch) return;
    for (uint32_t number : attempt->second.ranks) {
      WorkerMessage message;
      RankEnded& ended = *message.mutable_rank_ended();
      ended.set_job_id(job);
      ended.set_rank(number);
      ended.set_end(RANK_PEER_FAILED);
      ended.set_error("was told to stop");
      Say(epoch, std::move(message));
    }
    attempts_.erase(attempt);
    WorkerMessage message;
    message.mutable_attempt_cleared()->set_job_id(job);
    ended_ = absl::Now();
    Say(epoch, std::move(message));
  }

  const uint32_t slots_;
  std::unique_ptr<WorkerLink::Stub> stub_;
  grpc::ClientContext context_;
  CoordinatorMessage incoming_;
  absl::Mutex mutex_;
  std::deque<WorkerMessage> outbox_ ABSL_GUARDED_BY(mutex_);  // the first one is being written
  std::map<std::string, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  absl::Duration between_ ABSL_GUARDED_BY(mutex_);           // its heartbeats, as the coordinator has told
  absl::Time due_ ABSL_GUARDED_BY(mutex_);                   // the next one
  absl::Duration between_progress_ ABSL_GUARDED_BY(mutex_);  // as it has told; it goes out with a heartbeat
  absl::Time progress_due_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, absl::Time> beats_ ABSL_GUARDED_BY(mutex_);
  int64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time ended_ ABSL_GUARDED_BY(mutex_);
  Times times_ ABSL_GUARDED_BY(mutex_);
  bool welcomed_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
};

SimulatedWorkers::SimulatedWorkers(Settings settings) : settings_(std::move(settings)) {
  heart_ = std::thread([this] { Beat(); });
}

SimulatedWorkers::~SimulatedWorkers() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  heart_.join();
  absl::MutexLock lock(&mutex_);
  for (auto& worker : workers_) worker->Stop();
}

void SimulatedWorkers::Beat() {
  // Each worker is asked once a second. Spread over the second, as the heartbeats of many machines are.
  const absl::Duration between = absl::Seconds(1) / static_cast<int64_t>(settings_.count);
  size_t next = 0;
  absl::Time due = absl::Now();
  while (true) {
    due += between;
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithDeadline(absl::Condition(&stopping_), due)) return;
    const size_t turn = next++ % static_cast<size_t>(settings_.count);
    if (turn < workers_.size()) workers_[turn]->Beat();
  }
}

absl::Status SimulatedWorkers::Connect(Deadline deadline, const std::function<bool()>& stopped) {
  std::vector<Worker*> connecting;
  for (int i = 0; i < settings_.count + kAtOnce; ++i) {
    if (i < settings_.count) {
      absl::MutexLock lock(&mutex_);
      connecting.push_back(workers_.emplace_back(std::make_unique<Worker>(settings_, i)).get());
    }
    if (i < kAtOnce || i - kAtOnce >= settings_.count) continue;
    for (Worker& first = *connecting[static_cast<size_t>(i - kAtOnce)]; !first.welcomed();) {
      if (first.over()) return first.end();
      if (stopped()) return absl::CancelledError("stopped");
      if (deadline.Expired()) return absl::DeadlineExceededError(absl::StrCat(i - kAtOnce, " were connected in time"));
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  return absl::OkStatus();
}

SimulatedWorkers::Times SimulatedWorkers::TakeTimes() {
  Times times;
  absl::MutexLock lock(&mutex_);
  for (auto& worker : workers_) worker->TakeTimes(times);
  return times;
}

int SimulatedWorkers::lost() {
  int lost = 0;
  absl::MutexLock lock(&mutex_);
  for (const auto& worker : workers_) lost += worker->over() ? 1 : 0;
  return lost;
}

}  // namespace adjoin
