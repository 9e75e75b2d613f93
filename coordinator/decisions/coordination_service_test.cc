#include "coordinator/decisions/coordination_service.h"

#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinationServiceTest : public CoordinationTest {};

TEST_F(CoordinationServiceTest, WaitsForAWorker) {
  std::string job = Submit(Spec("net", 2));
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(Job(job).reason(), "no worker is connected");
  EXPECT_EQ(Job(job).queue_position(), 1);
  Connect(1, "worker-0", 2);
  EXPECT_EQ(Job(job).state(), STARTING);
  std::vector<Action> starts = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_EQ(starts.size(), 1);
  EXPECT_EQ(starts[0].message.start_ranks().rank_size(), 2);
  EXPECT_TRUE(starts[0].message.start_ranks().single_node());
  EXPECT_EQ(starts[0].message.header().epoch(), Job(job).epoch());
}

TEST_F(CoordinationServiceTest, TheStartMessageHasTheIdOfTheStoreThatCountsEpochs) {
  stored_.store_id = 77;
  Restart();
  Connect(1, "worker-0", 1);
  Submit(Spec("net", 1));
  std::vector<Action> starts = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_EQ(starts.size(), 1);
  EXPECT_EQ(starts[0].message.start_ranks().store_id(), 77);
}

TEST_F(CoordinationServiceTest, DaemonsHaveThreeQuartersOfTheTimeOfAStartForItsPaths) {
  options_.start_timeout = absl::Seconds(200);
  Restart();
  Connect(1, "worker-0", 1);
  Submit(Spec("net", 1));
  std::vector<Action> starts = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_EQ(starts.size(), 1);
  EXPECT_EQ(starts[0].message.start_ranks().prepare_seconds(), 150);
}

TEST_F(CoordinationServiceTest, WaitsUntilAllRanksFitAndSaysWhy) {
  Connect(1, "worker-0", 3);
  Connect(2, "worker-1", 3);
  std::string first = Submit(Spec("first", 4));
  std::string second = Submit(Spec("second", 4));
  std::string third = Submit(Spec("third", 3));
  EXPECT_EQ(Job(first).state(), STARTING);
  EXPECT_EQ(Job(second).reason(), "needs 4 slots, 2 of 6 free on 2 workers");
  EXPECT_EQ(Job(third).reason(), "needs 3 slots, 2 of 6 free on 2 workers; behind 1 other job; it could delay job-2");
  EXPECT_EQ(Job(third).queue_position(), 2);
  for (uint32_t rank = 0; rank < 3; ++rank) Ready(1, first, rank);
  Ready(2, first, 3);
  for (uint32_t rank = 0; rank < 3; ++rank) Ended(1, first, rank, "");
  Ended(2, first, 3, "");
  EXPECT_EQ(Job(first).state(), SUCCEEDED);
  EXPECT_EQ(Job(second).state(), PENDING) << "slots are free only when the daemon reports that no process is left";
  Cleared(1, first);
  EXPECT_EQ(Job(second).state(), STARTING);
}

TEST_F(CoordinationServiceTest, SmallJobsFillHolesWhereTheyCannotDelayTheHead) {
  Connect(1, "worker-0", 6);
  std::string running = Submit(Spec("running", 4));
  std::string head = Submit(Spec("head", 5));
  std::string fills = Submit(Spec("fills", 1));  // the head needs the 4 to end, and then has 6 less 1
  std::string delays = Submit(Spec("delays", 1));
  EXPECT_EQ(Job(running).state(), STARTING);
  EXPECT_EQ(Job(head).state(), PENDING);
  EXPECT_EQ(Job(fills).state(), STARTING);
  EXPECT_EQ(Job(delays).state(), PENDING);
  EXPECT_THAT(Job(delays).reason(), HasSubstr("it could delay job-2"));
}

TEST_F(CoordinationServiceTest, AJobThatNoNodeFitsDelaysNoOther) {
  Connect(1, "worker-0", 4);
  JobSpec impossible = Spec("impossible", 1);
  (*impossible.mutable_resources()->mutable_node_label())["gpu"] = "h100";
  std::string first = Submit(impossible);
  std::string second = Submit(Spec("second", 1));
  EXPECT_EQ(Job(first).state(), PENDING);
  EXPECT_EQ(Job(second).state(), STARTING);
  WorkerHello hello = Hello("worker-1", 1);
  (*hello.mutable_label())["gpu"] = "h100";
  Connect(2, hello);
  EXPECT_EQ(Job(first).state(), STARTING);
}

TEST_F(CoordinationServiceTest, AWorkerThatOffersNoMoreChecksOneJobAtATimeAndAcceptedOnesAreCheckedAgain) {
  std::string accepted = Submit(Spec("accepted", 1, /*with_data=*/true));
  Connect(1, "worker-0", 1);
  Connect(2, "worker-1", 1);
  std::string other = Submit(Spec("other", 1, /*with_data=*/true));
  std::string third = Submit(Spec("third", 1, /*with_data=*/true));
  std::vector<Action> probes = Taken(CoordinatorMessage::kProbeData);
  ASSERT_EQ(probes.size(), 2);
  EXPECT_EQ(probes[0].to, 1);
  EXPECT_EQ(probes[1].to, 2);
  Probed(2, other, "");
  probes = Taken(CoordinatorMessage::kProbeData);
  ASSERT_EQ(probes.size(), 1);
  EXPECT_EQ(probes[0].message.probe_data().request_id(), third);
  Probed(2, third, "");
  Pass(35, {1, 2});
  EXPECT_EQ(Job(accepted).state(), PENDING);
  probes = Taken(CoordinatorMessage::kProbeData);
  ASSERT_EQ(probes.size(), 1);
  EXPECT_EQ(probes[0].to, 2) << "worker-0 did not answer";
  Probed(2, accepted, "");
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(accepted, &reason), Admission::kAccepted);
}

TEST_F(CoordinationServiceTest, HigherPrioritiesStartFirstThenTheOldestJobs) {
  std::string low = Submit(Spec("low", 1), -1);
  std::string first = Submit(Spec("first", 1));
  std::string second = Submit(Spec("second", 1));
  std::string high = Submit(Spec("high", 1), 5);
  EXPECT_EQ(Job(high).queue_position(), 1);
  EXPECT_EQ(Job(first).queue_position(), 2);
  EXPECT_EQ(Job(second).queue_position(), 3);
  EXPECT_EQ(Job(low).queue_position(), 4);
  Connect(1, "worker-0", 2);
  EXPECT_EQ(Job(high).state(), STARTING);
  EXPECT_EQ(Job(first).state(), STARTING);
  EXPECT_EQ(Job(second).state(), PENDING);
}

TEST_F(CoordinationServiceTest, TheLengthOfTheQueueIsLimited) {
  options_.max_queued_jobs = 2;
  Restart();
  Submit(Spec("first", 1));
  Submit(Spec("second", 1));
  NewJob third;
  third.spec = Spec("third", 1);
  EXPECT_EQ(service_->Submit(third).status().code(), absl::StatusCode::kResourceExhausted);
  Connect(1, "worker-0", 1);
  EXPECT_TRUE(service_->Submit(third).ok());
}

TEST_F(CoordinationServiceTest, TheSnapshotHasTheLossesOfJobsThatTrain) {
  Connect(1, "worker-0", 2);
  for (const Kind kind : {TRAIN, EVALUATE}) {
    JobSpec spec = Spec(Kind_Name(kind), 1);
    spec.set_kind(kind);
    const std::string job = Submit(spec);
    Ready(1, job, 0);
    EXPECT_FALSE(service_->Snapshot().running.back().loss.has_value());
    WorkerMessage update = Message(job);
    update.mutable_rank_update()->set_job_id(job);
    JobProgress& progress = *update.mutable_rank_update()->mutable_progress();
    progress.set_step(3);
    progress.set_loss(0.5);
    (*progress.mutable_metric())["validation.loss"] = 0.75;
    Say(1, update);
  }
  const ClusterSnapshot now = service_->Snapshot();
  ASSERT_EQ(now.running.size(), 2u);
  EXPECT_EQ(now.running[0].loss, 0.5);
  EXPECT_EQ(now.running[0].validation_loss, 0.75);
  EXPECT_FALSE(now.running[1].loss.has_value()) << "it trains nothing";
  EXPECT_FALSE(now.running[1].validation_loss.has_value());
}

TEST_F(CoordinationServiceTest, AHeldJobWaitsForItsRelease) {
  std::string job = Submit(Spec("net", 1));
  EXPECT_EQ(service_->Hold(job, true), absl::OkStatus());
  Connect(1, "worker-0", 1);
  EXPECT_EQ(Job(job).reason(), "held: `adjoin release job-1` lets it start");
  Restart();
  EXPECT_TRUE(Job(job).held());
  Connect(1, "worker-0", 1);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(service_->Hold("net", false), absl::OkStatus());
  Settle();
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(service_->Hold(job, true).message(), "job-1 is starting: only a job that waits can be held");
}

TEST_F(CoordinationServiceTest, AnIdempotencyKeyBelongsToOneJob) {
  NewJob first;
  first.spec = Spec("net", 1);
  first.owner = "alice";
  first.idempotency_key = "monday";
  EXPECT_EQ(Submit(first), "job-1");
  Restart();
  absl::StatusOr<Submitted> again = service_->Submit(first);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job_id, "job-1");
  EXPECT_TRUE(again->existed);
  NewJob other = first;
  other.spec.set_seed(2);
  EXPECT_EQ(service_->Submit(other).status().code(), absl::StatusCode::kAlreadyExists);
  other.owner = "bob";
  other.spec.set_output_dir("bob");
  other.spec.set_output_dir("bob");
  EXPECT_EQ(Submit(other), "job-2");
}

TEST_F(CoordinationServiceTest, ConnectsRanksWhenAllAreReady) {
  std::string job = RunningOnTwoWorkers();
  std::vector<Action> connects = Taken(CoordinatorMessage::kConnectRanks);
  ASSERT_EQ(connects.size(), 2);
  for (const Action& action : connects) {
    ASSERT_EQ(action.message.connect_ranks().transport_address_size(), 2);
    EXPECT_EQ(action.message.connect_ranks().transport_address(1), "address of 1");
  }
  Ended(1, job, 0, "");
  EXPECT_EQ(Job(job).state(), RUNNING);
  Ended(2, job, 1, "");
  EXPECT_EQ(Job(job).state(), SUCCEEDED);
  EXPECT_TRUE(FindArtifact(job, "model.safetensors").ok());
  EXPECT_EQ(FindArtifact(job, "../secret").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FindArtifact(job, "other").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationServiceTest, FirstErrorDecidesAndStopsEveryDaemon) {
  std::string job = RunningOnTwoWorkers();
  Ended(2, job, 1, "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(Taken(CoordinatorMessage::kStopAttempt).size(), 2);
  Ended(1, job, 0, "failed: rank 1 died", true);
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 was killed by signal 9 (SIGKILL)");
}

TEST_F(CoordinationServiceTest, APeersReportWaitsForTheCause) {
  std::string job = RunningOnTwoWorkers();
  Ended(1, job, 0, "failed: rank 1 died", true);
  EXPECT_EQ(Job(job).state(), RUNNING);
  now_ += absl::Milliseconds(500);
  Tick();
  Ended(2, job, 1, "was killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 was killed by signal 11 (SIGSEGV)");
}

TEST_F(CoordinationServiceTest, APeersReportCountsWhenNoCauseShowsUp) {
  std::string job = RunningOnTwoWorkers();
  Ended(1, job, 0, "failed: rank 1 died", true);
  now_ += absl::Seconds(1);
  Tick();
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(), "rank 0 on worker-0 failed: rank 1 died");
}

TEST_F(CoordinationServiceTest, MessagesOfAnotherEpochAreIgnored) {
  std::string job = RunningOnTwoWorkers();
  WorkerMessage stale;
  *stale.mutable_header() = MakeHeader(Job(job).epoch() + 1);
  stale.mutable_rank_ended()->set_job_id(job);
  stale.mutable_rank_ended()->set_rank(0);
  stale.mutable_rank_ended()->set_end(RANK_LOST);
  stale.mutable_rank_ended()->set_error("was killed by signal 9 (SIGKILL)");
  Say(1, stale);
  EXPECT_EQ(Job(job).state(), RUNNING);
  EXPECT_TRUE(service_->Owns(1, job, Job(job).epoch()));
  EXPECT_FALSE(service_->Owns(1, job, Job(job).epoch() + 1));
}

TEST_F(CoordinationServiceTest, EpochsGrow) {
  Connect(1, "worker-0", 2);
  std::string first = Submit(Spec("first", 1));
  std::string second = Submit(Spec("second", 1));
  EXPECT_GT(Job(second).epoch(), Job(first).epoch());
}

TEST_F(CoordinationServiceTest, CancelStopsAndKeepsSlotsUntilCleared) {
  std::string job = RunningOnTwoWorkers();
  std::string next = Submit(Spec("next", 2));
  EXPECT_EQ(*service_->Cancel("net"), CANCELLED);
  Settle();
  EXPECT_EQ(Taken(CoordinatorMessage::kStopAttempt).size(), 2);
  EXPECT_EQ(Job(next).state(), PENDING);
  Cleared(1, job);
  Cleared(2, job);
  EXPECT_EQ(Job(next).state(), STARTING);
  EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  EXPECT_EQ(service_->Cancel("job-99").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationServiceTest, CancelOfAPendingJob) {
  std::string job = Submit(Spec("net", 2));
  EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  Connect(1, "worker-0", 2);
  EXPECT_EQ(Job(job).state(), CANCELLED);
  EXPECT_TRUE(Taken(CoordinatorMessage::kStartRanks).empty());
}

TEST_F(CoordinationServiceTest, RanksHaveToBecomeReadyInTime) {
  Connect(1, "worker-0", 1);
  Connect(2, "worker-1", 1);
  std::string job = Submit(Spec("net", 2));
  Ready(1, job, 0);
  for (int second = 0; second < 120; ++second) {
    EXPECT_EQ(Job(job).state(), STARTING);
    Pass(1, {1, 2});
  }
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 did not become ready within 2m");
}

TEST_F(CoordinationServiceTest, DataIsCheckedBeforeAJobIsAccepted) {
  Connect(1, "worker-0", 1);
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kUndecided);
  EXPECT_EQ(List()->job_size(), 0);
  ASSERT_EQ(Taken(CoordinatorMessage::kProbeData).size(), 1);
  Probed(1, job, "");
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kAccepted);
  ASSERT_EQ(planned_sizes_.size(), 1);
  EXPECT_EQ(planned_sizes_[0].samples(), 100);
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(CoordinationServiceTest, BadDataRefusesTheSubmission) {
  Connect(1, "worker-0", 1);
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  Probed(1, job, "mnist/train.gz: no such file");
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason.message(), "mnist/train.gz: no such file (as worker-0 sees it)");
  EXPECT_EQ(Summary(job).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationServiceTest, BadDataIsReportedWithTheLineThatNamesIt) {
  Connect(1, "worker-0", 1);
  NewJob submitted;
  submitted.spec = Spec("net", 1, /*with_data=*/true);
  submitted.place_of = [](const std::string& field) { return absl::StrCat("job.textproto:", field.size()); };
  std::string job = Submit(std::move(submitted));
  WorkerMessage message;
  *message.mutable_header() = MakeHeader();
  message.mutable_probe_result()->set_request_id(job);
  message.mutable_probe_result()->set_error("mnist/train.gz: no such file");
  message.mutable_probe_result()->set_field("dataset[0]");
  Say(1, message);
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason.message(), "job.textproto:10: mnist/train.gz: no such file (as worker-0 sees it)");
}

TEST_F(CoordinationServiceTest, BadDataFailsAJobThatWasAcceptedWithoutAWorker) {
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kAccepted);
  Connect(1, "worker-0", 1);
  EXPECT_EQ(Job(job).reason(), "its data files are being checked by worker-0");
  Probed(1, job, "mnist/train.gz: no such file");
  EXPECT_EQ(Job(job).state(), FAILED);
}

TEST_F(CoordinationServiceTest, AnotherWorkerChecksWhenTheFirstIsLostAndTheCheckHasADeadline) {
  Connect(1, "worker-0", 1);
  Connect(2, "worker-1", 1);
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  service_->WorkerDisconnected(1, "its connection ended");
  Settle();
  std::vector<Action> probes = Taken(CoordinatorMessage::kProbeData);
  ASSERT_EQ(probes.size(), 2);
  EXPECT_EQ(probes[1].to, 2);
  Pass(35, {2});
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(CoordinationServiceTest, APlanThatFailsWithTheSizesRefusesTheSubmission) {
  Connect(1, "worker-0", 1);
  plan_error_ = absl::InvalidArgumentError("the data set is empty");
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  Probed(1, job, "");
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason, plan_error_);
}

TEST_F(CoordinationServiceTest, ANameBelongsToOneDaemon) {
  Connect(1, "worker-0", 1, /*incarnation=*/5);
  EXPECT_EQ(service_->WorkerConnected(2, Hello("worker-0", 1, 6)).code(), absl::StatusCode::kAlreadyExists);
  Connect(3, "worker-0", 1, /*incarnation=*/5);
  EXPECT_EQ(List()->worker_size(), 1);
}

TEST_F(CoordinationServiceTest, OnlyTheNewestEndedJobsAreRemembered) {
  options_.keep_jobs = 2;
  Restart();
  std::string running = RunningOnTwoWorkers();
  std::vector<std::string> ended;
  for (int i = 0; i < 4; ++i) {
    ended.push_back(Submit(Spec("ended", 1)));
    EXPECT_EQ(*service_->Cancel(ended.back()), CANCELLED);
  }
  std::string pending = Submit(Spec("pending", 1));
  EXPECT_THAT(service_->TakeForgotten(), ElementsAre(ended[0], ended[1]));
  EXPECT_THAT(service_->TakeForgotten(), IsEmpty());
  EXPECT_EQ(Summary(ended[1]).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Job(ended[2]).state(), CANCELLED);
  EXPECT_EQ(Job(running).state(), RUNNING);
  EXPECT_EQ(Job(pending).state(), PENDING);
}

TEST_F(CoordinationServiceTest, ASpecIsSharedAndOutlivesItsJob) {
  options_.keep_jobs = 1;
  Restart();
  const std::string job = Submit(Spec("ended", 1));
  const auto spec = SpecOf(job);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(SpecOf(job)->get(), spec->get()) << "no copy is made";
  EXPECT_FALSE(Describe(job)->has_spec());
  EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  EXPECT_EQ(*service_->Cancel(Submit(Spec("next", 1))), CANCELLED);
  Submit(Spec("last", 1));
  EXPECT_EQ(SpecOf(job).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*spec)->name(), "ended");
}

TEST_F(CoordinationServiceTest, ArtifactsThatALaterJobReplacedAreNotFound) {
  Connect(1, "worker-0", 1);
  auto run = [this](const std::string& folder) {
    JobSpec spec = Spec("net", 1);
    spec.set_output_dir(folder);
    NewJob submitted;
    submitted.spec = spec;
    submitted.replace_output = true;
    std::string job = Submit(std::move(submitted));
    Ready(1, job, 0);
    Ended(1, job, 0, "");
    Cleared(1, job);
    EXPECT_EQ(Job(job).state(), SUCCEEDED);
    return job;
  };
  std::string first = run("out");
  std::string second = run("other");
  EXPECT_TRUE(FindArtifact(first, "model.safetensors").ok());
  std::string third = run("./out/");
  EXPECT_EQ(FindArtifact(first, "model.safetensors").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(FindArtifact(second, "model.safetensors").ok());
  EXPECT_TRUE(FindArtifact(third, "model.safetensors").ok());
}

TEST_F(CoordinationServiceTest, RefusesOutputFoldersOfOtherOwners) {
  auto submit = [this](const std::string& owner, const std::string& folder, bool admin = false) {
    NewJob job;
    job.spec = Spec("net", 1);
    job.spec.set_output_dir(folder);
    job.owner = owner;
    job.any_folder = admin;
    job.idempotency_key = owner + folder;
    absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    Settle();
    return submitted;
  };
  absl::StatusOr<Submitted> first = submit("alice", "out/net");
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status refused = submit("bob", "out").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("above it or below it, and that job is somebody else's"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(first->job_id));
  EXPECT_EQ(submit("", "out/net/x").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(submit("alice", "out").ok());
  EXPECT_TRUE(submit("bob", "bob").ok());
  EXPECT_TRUE(submit("root", "out/net/admin", /*admin=*/true).ok());
  EXPECT_TRUE(submit("alice", "out/net")->existed) << "what is there already is asked for once more";
  Restart();
  EXPECT_EQ(submit("bob", "out/net").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(CoordinationServiceTest, JobsAreNamedByIdOrName) {
  for (int i = 0; i < 12; ++i) Submit(Spec(i < 6 ? "early" : "late", 1));
  EXPECT_EQ(Summary("job-1")->job_id(), "job-1");
  EXPECT_EQ(Summary("early")->job_id(), "job-6");
  EXPECT_EQ(Summary("job-12")->job_id(), "job-12");
  EXPECT_EQ(Summary("job").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Summary("nothing").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace adjoin
