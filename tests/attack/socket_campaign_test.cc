// A live coordinator, honest users who submit jobs with the command, honest daemons that run them, and hostile clients
// that call any method of both services over real sockets with whatever they like (random_calls.h). It is as if the
// hostile ones were not there: each honest job runs once and succeeds, the daemons stay connected, `adjoin ps` answers,
// and what the coordinator uses is bounded. Started anew it has everything that it had.
//
// ADJOIN_CAMPAIGN_CALLS: how many calls, in both tests together; ADJOIN_TEST_SEED repeats them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/testing/test_seed.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/protocol.h"
#include "tests/attack/attacked_cluster.h"
#include "tests/attack/hostile_client.h"
#include "tests/attack/random_calls.h"
#include "tests/fault/fake_jobs.h"
#include "tests/fault/security_fixture.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kNodes = 2;
constexpr int kSlots = 8;       // of a daemon
constexpr int kFewestJobs = 8;  // honest ones
constexpr size_t kAtOnce = 3;   // of them
constexpr double kJobSeconds = 100;
constexpr absl::Duration kLongestPs = absl::Seconds(30);  // on a busy machine; the command is started for each
constexpr uint64_t kHostileSlots = 2;
// What the coordinator may use in the middle of it.
constexpr int64_t kMostMemory = int64_t{3} << 30;
constexpr int kMostThreads = 1000;
constexpr int kMostDescriptors = 1000;

int64_t Calls() {
  const char* text = getenv("ADJOIN_CAMPAIGN_CALLS");
  return text == nullptr ? 3000 : atoll(text);
}

// A job that only honest daemons may run, and of which no daemon has to check a file.
std::string HonestJob(const std::string& name, const std::string& folder) {
  const std::string spec =
      FakeJob(name, /*ranks=*/2,
              absl::StrCat("output_dir: \"", folder, "\" resources { node_label { key: \"honest\" value: \"yes\" } }"));
  return absl::StrReplaceAll(
      spec, {{R"(idx { path: "mnist/test-images.idx.gz" })", R"(synthetic { kind: "normal" samples: 1024 })"},
             {R"(idx { path: "mnist/test-labels.idx.gz" })", R"(synthetic { kind: "index" samples: 1024 high: 10 })"}});
}

struct Hostile {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  bool may_do_everything = false;
};

// Hostile clients, each on a thread of its own.
class Attack {
 public:
  Attack(const std::vector<Hostile>& clients, const std::string& address, const HostileAim& aim, uint64_t seed,
         int64_t calls)
      : ends_(clients.size()), left_(static_cast<int>(clients.size())) {
    for (size_t i = 0; i < clients.size(); ++i) {
      const int64_t own = calls / static_cast<int64_t>(clients.size());
      threads_.emplace_back([this, &aim, i, own, address, client = clients[i], seed] {
        const auto connect = [&] {
          grpc::ChannelArguments arguments;
          arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
          return grpc::CreateCustomChannel(address, client.credentials, arguments);
        };
        RandomCalls random(static_cast<uint32_t>(seed + i), aim, client.may_do_everything, /*oversized=*/i < 2);
        HostileClient hostile(connect);
        for (int64_t call = 0; call < own; ++call) hostile.Begin(random.Next());
        hostile.End();
        ends_[i] = hostile.ends();
        --left_;
      });
    }
  }
  ~Attack() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  bool IsOver() const { return left_ == 0; }
  // How many calls ended how, once all are over.
  std::map<grpc::StatusCode, int64_t> Join() {
    for (std::thread& thread : threads_) thread.join();
    std::map<grpc::StatusCode, int64_t> all;
    for (const auto& own : ends_) {
      for (const auto& [code, count] : own) all[code] += count;
    }
    return all;
  }

 private:
  std::vector<std::map<grpc::StatusCode, int64_t>> ends_;  // by client, each set by its thread
  std::atomic<int> left_;
  std::vector<std::thread> threads_;
};

class SocketCampaignTest : public SecurityTest {
 protected:
  void SetUp() override {
    MakeCerts("certs",
              "--server localhost,127.0.0.1 --client admin root --client user alice --client user bob --client user "
              "mallory --client worker worker-0 --client worker worker-1 --client worker mallory");
  }

  void Start(bool with_tls) {
    with_tls_ = with_tls;
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    options.worker_flags = {"--label", "honest=yes"};
    if (with_tls) {
      options.credentials = Credentials(Files("admin-root"));
      std::vector<std::string>& flags = options.coordinator.flags;
      for (const std::string& flag : Flags(Files("server"))) flags.push_back(flag);
      flags.insert(flags.end(),
                   {"--issue-cert", folder_ + "/certs/ca.pem", "--issue-key", folder_ + "/certs/ca.key", "--user-slots",
                    absl::StrCat(kHostile, "=", kHostileSlots), "--user-queued-jobs", absl::StrCat(kHostile, "=50")});
      for (int node = 0; node < kNodes; ++node) {
        options.worker[node].flags = Flags(Files(absl::StrCat("worker-worker-", node)));
      }
    } else {
      // The jobs of all local callers are those of one owner, of whom the coordinator would keep the newest 1,000.
      options.coordinator.flags = {"--keep-jobs", "100000", "--keep-jobs-total", "200000"};
    }
    auto cluster = LocalCluster::Start(kNodes, kSlots, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    attacked_ = std::make_unique<AttackedCluster>(
        *cluster_, HonestJob("model", "model"), "model",
        AttackLimits{.list_seconds = 5, .memory_bytes = int64_t{512} << 20, .settle_seconds = 60});
    ASSERT_EQ(attacked_->Begin(), absl::OkStatus());
  }

  LocalCluster::CliResult As(const std::string& user, const std::vector<std::string>& arguments) {
    if (with_tls_) return Cli("user-" + user, arguments);
    std::vector<std::string> all = {"--retry-seconds", "0"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return cluster_->Cli(all);
  }

  // The id of the coordinator's store, which it tells every daemon.
  uint64_t StoreId(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const std::unique_ptr<WorkerLink::Stub> stub = WorkerLink::NewStub(Channel(credentials));
    const auto stream = stub->Connect(&context);
    WorkerMessage message;
    *message.mutable_header() = MakeHeader();
    message.mutable_hello()->set_name(kHostile);
    message.mutable_hello()->set_slots(1);
    message.mutable_hello()->set_draining(true);
    CoordinatorMessage welcome;
    EXPECT_TRUE(stream->Write(message) && stream->Read(&welcome));
    stream->WritesDone();
    context.TryCancel();
    stream->Finish();
    return welcome.welcome().store_id();
  }

  // Submits a job as one of the honest users do, and aims the hostile ones at it. "": it was refused.
  std::string SubmitHonest() {
    const int number = static_cast<int>(honest_.size());
    const std::string user = number % 2 == 0 ? "alice" : "bob";
    const std::string spec = HonestJob("files-1", absl::StrCat("honest/", number));
    // Jobs of local callers are under no limit: these come before the hostile ones'.
    std::vector<std::string> arguments = {"submit", WriteFile("job.textproto", spec)};
    if (!with_tls_) arguments.insert(arguments.end(), {"--priority", "10"});
    const LocalCluster::CliResult result = As(user, arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string id = result.out.substr(0, result.out.find_first_of(" \n"));
    absl::string_view digits = id;
    uint64_t newest = 0;
    EXPECT_TRUE(absl::ConsumePrefix(&digits, "job-") && absl::SimpleAtoi(digits, &newest)) << result.out;
    if (newest == 0) return "";
    aim_.newest_job = newest;
    EXPECT_TRUE(honest_.emplace(id, with_tls_ ? user : "").second) << id << " is there twice";
    return id;
  }

  void ListAsUser() {
    const absl::Time begin = absl::Now();
    const LocalCluster::CliResult ps = As("bob", {"ps"});
    longest_ps_ = std::max(longest_ps_, absl::Now() - begin);
    EXPECT_EQ(ps.exit_code, 0) << ps.err;
    EXPECT_TRUE(absl::StrContains(ps.out, "worker-0")) << ps.out;
  }

  void LookAtUse() {
    const std::map<std::string, ProcessUse> programs = UseOfPrograms(*cluster_);
    const auto found = programs.find("coordinator");
    ASSERT_NE(found, programs.end()) << "the coordinator has ended";
    most_.memory_bytes = std::max(most_.memory_bytes, found->second.memory_bytes);
    most_.descriptors = std::max(most_.descriptors, found->second.descriptors);
    most_.threads = std::max(most_.threads, found->second.threads);
  }

  void ExpectSucceeds(const std::string& job) {
    const auto end = cluster_->WaitFor(job, Within(kJobSeconds));
    ASSERT_TRUE(end.ok()) << job << ": " << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << job << ": " << end->reason();
  }

  // Honest users work until the attack is over.
  void WorkDuring(const Attack& attack) {
    std::deque<std::string> running;
    while (honest_.size() < kFewestJobs || !attack.IsOver()) {
      const std::string job = SubmitHonest();
      if (HasFailure()) break;
      running.push_back(job);
      ListAsUser();
      LookAtUse();
      if (running.size() < kAtOnce) continue;
      ExpectSucceeds(running.front());
      running.pop_front();
    }
    for (const std::string& job : running) ExpectSucceeds(job);
  }

  // All jobs, by id. The test fails where one is there twice.
  std::map<std::string, JobSummary> ListAll() {
    std::map<std::string, JobSummary> all;
    ListJobsRequest request;
    *request.mutable_header() = MakeHeader();
    do {
      ListJobsResponse response;
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
      const grpc::Status status = cluster_->stub().ListJobs(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const JobSummary& job : response.job()) {
        EXPECT_TRUE(all.emplace(job.job_id(), job).second) << job.job_id() << " is listed twice";
      }
      request.set_page_token(status.ok() ? response.next_page_token() : "");
    } while (!request.page_token().empty());
    return all;
  }

  // Each honest job is there once, ran once, and succeeded.
  void CheckHonestJobs(const std::map<std::string, JobSummary>& all) {
    std::map<std::string, std::string> found;
    for (const auto& [id, job] : all) {
      if (job.name() != "files-1" || job.owner() == kHostile) continue;
      found[id] = job.owner();
      EXPECT_EQ(job.state(), SUCCEEDED) << id << ": " << job.reason();
    }
    EXPECT_EQ(found, honest_);
    const std::map<std::string, std::set<uint64_t>> ran = AttemptsThatRan(cluster_->output_root());
    for (const auto& [id, owner] : honest_) {
      const auto attempts = ran.find(id);
      ASSERT_NE(attempts, ran.end()) << id << " never ran";
      EXPECT_THAT(attempts->second, SizeIs(1)) << id;
    }
    EXPECT_THAT(TwiceAtOnce(cluster_->output_root()), IsEmpty());
  }

  // That each daemon has said once what it says when it is connected, and never that it is not any more.
  void CheckDaemonsStayed() {
    for (int node = 0; node < kNodes; ++node) {
      const std::string log = ReadFile(absl::StrCat(cluster_->folder(), "/worker-", node, "-log.err"));
      const std::string text = "connected to the coordinator at ";
      int times = 0;
      for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++times;
      EXPECT_EQ(times, 1) << "worker-" << node << " says: " << log;
    }
  }

  void CheckRestart(const std::map<std::string, JobSummary>& before) {
    ASSERT_EQ(cluster_->StopCoordinator(), absl::OkStatus());
    ASSERT_EQ(cluster_->RestartCoordinator(), absl::OkStatus());
    const std::map<std::string, JobSummary> after = ListAll();
    for (const auto& [id, was] : before) {
      const auto is = after.find(id);
      ASSERT_NE(is, after.end()) << id << " is not read again";
      EXPECT_EQ(is->second.name(), was.name()) << id;
      EXPECT_EQ(is->second.owner(), was.owner()) << id;
      EXPECT_EQ(is->second.submitted_unix_ms(), was.submitted_unix_ms()) << id;
      if (was.ended_unix_ms() == 0) continue;  // the hostile ones' jobs go on
      EXPECT_EQ(is->second.state(), was.state()) << id;
      EXPECT_EQ(is->second.ended_unix_ms(), was.ended_unix_ms()) << id;
    }
    const std::string job = SubmitHonest();
    ASSERT_FALSE(HasFailure());
    ExpectSucceeds(job);
    CheckHonestJobs(ListAll());
  }

  void Run(const std::vector<Hostile>& clients, const std::shared_ptr<grpc::ChannelCredentials>& of_daemon,
           int64_t calls) {
    const uint64_t seed = TestSeed();
    aim_.store_id = StoreId(of_daemon);
    ASSERT_NE(aim_.store_id, 0);
    Attack attack(clients, cluster_->address(), aim_, seed, calls);
    WorkDuring(attack);
    std::map<grpc::StatusCode, int64_t> ends = attack.Join();
    int64_t ended = 0;
    for (const auto& [code, count] : ends) {
      std::cout << count << " calls ended with code " << code << std::endl;
      ended += count;
    }
    std::cout << honest_.size() << " honest jobs, the longest `ps` took " << longest_ps_ << ", the coordinator at most "
              << (most_.memory_bytes >> 20) << " MiB, " << most_.descriptors << " descriptors, " << most_.threads
              << " threads" << std::endl;
    if (HasFailure()) return;
    // They reached it.
    EXPECT_GE(ended + static_cast<int64_t>(clients.size()), calls);
    EXPECT_GT(ends[grpc::StatusCode::OK], calls / 100);
    EXPECT_LT(ends[grpc::StatusCode::UNAVAILABLE], calls / 2);

    EXPECT_LT(longest_ps_, kLongestPs);
    EXPECT_LT(most_.memory_bytes, kMostMemory);
    EXPECT_LT(most_.descriptors, kMostDescriptors);
    EXPECT_LT(most_.threads, kMostThreads);
    EXPECT_EQ(attacked_->Check(), absl::OkStatus());
    CheckDaemonsStayed();
    const std::map<std::string, JobSummary> all = ListAll();
    CheckHonestJobs(all);
    CheckRestart(all);
  }

  bool with_tls_ = false;
  std::unique_ptr<AttackedCluster> attacked_;
  HostileAim aim_;
  std::map<std::string, std::string> honest_;  // owners, by job
  absl::Duration longest_ps_;
  ProcessUse most_;
};

TEST_F(SocketCampaignTest, CertificatesOfAUserAndAWorkerHarmNobodyElse) {
  Start(/*with_tls=*/true);
  if (HasFatalFailure()) return;
  grpc::SslCredentialsOptions nothing_shown;
  nothing_shown.pem_root_certs = ReadFile(Files("server").ca);
  const auto user = Credentials(Files("user-mallory")), worker = Credentials(Files("worker-mallory"));
  Run({{user}, {worker}, {user}, {worker}, {grpc::SslCredentials(nothing_shown)}}, worker, Calls() * 2 / 3);
}

// A local caller may do everything. Here they do all but what would harm others by right.
TEST_F(SocketCampaignTest, LocalCallersBreakNothing) {
  Start(/*with_tls=*/false);
  if (HasFatalFailure()) return;
  const Hostile local = {grpc::InsecureChannelCredentials(), /*may_do_everything=*/true};
  Run({local, local, local}, local.credentials, Calls() / 3);
}

}  // namespace
}  // namespace adjoin
