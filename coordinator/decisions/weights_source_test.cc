// Jobs that begin with the weights of an earlier one: which job a name means, whose it may be, and what a worker that
// sees its files is asked.
#include "coordinator/decisions/weights_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class WeightsSourceTest : public CoordinationTest {
 protected:
  void ConnectOn(ConnectionId connection, const std::string& name, const std::string& output_id) {
    WorkerHello hello = Hello(name, 2);
    hello.set_output_id(output_id);
    hello.set_data_checks(16);
    Connect(connection, hello);
  }
  static NewJob Base(const std::string& name, const std::string& owner = "", const std::string& keep_best = "") {
    NewJob job;
    job.spec = Spec(name, 1);
    job.spec.set_kind(TRAIN);
    job.spec.set_output_dir(name + "-of-" + owner);
    job.spec.mutable_checkpoint()->set_dir(name + owner + "/ckpt");
    job.spec.mutable_checkpoint()->set_keep_best(keep_best);
    job.owner = owner;
    return job;
  }
  static NewJob From(const std::string& base, const std::string& owner = "", bool best = false, uint64_t step = 0) {
    NewJob job;
    job.spec = Spec("tuned", 1);
    job.spec.mutable_weights()->set_from_job(base);
    job.spec.mutable_weights()->set_best(best);
    job.spec.mutable_weights()->set_step(step);
    job.owner = owner;
    job.place_of = [](const std::string& field) { return field == "weights.from_job" ? "job.textproto:9:3" : ""; };
    ModelTensor& tensor = job.model.emplace_back();
    tensor.set_name("fc.weight");
    tensor.add_shape(2);
    return job;
  }
  // On connection 1.
  std::string Ran(NewJob job, RankEnd end) {
    const std::string id = Submit(std::move(job));
    Ready(1, id, 0);
    EndedAs(1, id, 0, end);
    Cleared(1, id);
    return id;
  }
  absl::Status Try(NewJob job) {
    const absl::Status status = service_->Submit(std::move(job)).status();
    Settle();
    return status;
  }
  std::string WhyNot(NewJob job) { return std::string(Try(std::move(job)).message()); }
  // Who was asked what since the last call.
  std::vector<std::pair<ConnectionId, ProbeData>> Asked() {
    std::vector<std::pair<ConnectionId, ProbeData>> asked;
    for (const Action& action : Taken(CoordinatorMessage::kProbeData)) {
      asked.emplace_back(action.to, action.message.probe_data());
    }
    return asked;
  }
  // A checkpoint of the job whose weights are asked for.
  static std::string Chosen(const ProbeData& asked, uint64_t step = 40) {
    const CheckpointRead& read = asked.model().checkpoint();
    return absl::StrFormat("%s/step-%010d.1-%016x", read.dir(), step, read.job_tag());
  }
  // The place that the plan is asked for with, once a worker has answered so.
  std::string PlannedWith(ConnectionId from, const std::string& job, const std::string& chosen,
                          const std::optional<FileSums>& sums = std::nullopt) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader();
    message.mutable_probe_result()->set_request_id(job);
    message.mutable_probe_result()->set_weights(chosen);
    if (sums.has_value()) *message.mutable_probe_result()->mutable_weights_file() = *sums;
    service_->WorkerSaid(from, message);
    std::string weights = "no plan was asked for";
    for (const PlanRequest& request : service_->TakePlanRequests()) {
      if (request.job_id == job) weights = request.weights;
      planned_sums_ = request.weights_file;
      service_->Planned(request.job_id, MakePlan(request));
    }
    Settle();
    return weights;
  }
  static FileSums Sums() {
    FileSums sums;
    sums.set_bytes(1000);
    sums.set_chunk_bytes(4096);
    sums.add_sum("0123456789abcdef0123456789abcdef");
    return sums;
  }
  // What `adjoin ps` says that the job waits for.
  std::string WaitsFor(const std::string& job) { return Describe(job)->job().reason(); }

  std::optional<FileSums> planned_sums_;
};

TEST_F(WeightsSourceTest, ACheckpointIsChosenByAWorkerAndIsTheSameInEachAttempt) {
  ConnectOn(1, "worker-0", "one");
  const std::string base = Ran(Base("base", "", "dice"), RANK_HOPELESS);
  const std::string tuned = Submit(From("base", "", /*best=*/true));
  const auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  const ModelProbe& model = asked[0].second.model();
  EXPECT_EQ(model.checkpoint().dir(), "base/ckpt");
  EXPECT_TRUE(model.checkpoint().choice().best());
  EXPECT_FALSE(model.checkpoint().newest());
  EXPECT_EQ(model.checkpoint().metric(), "dice");
  EXPECT_NE(model.checkpoint().job_tag(), 0u);
  EXPECT_THAT(model.tensor(), SizeIs(1));
  EXPECT_EQ((*SpecOf(tuned))->weights().from_job(), base) << "another job may get the name";
  const std::string chosen = Chosen(asked[0].second);
  EXPECT_EQ(PlannedWith(1, tuned, chosen), chosen);
  std::vector<std::string> told;
  for (const JobEvent& event : events_) {
    if (event.kind() == "weights") told.push_back(event.text());
  }
  EXPECT_THAT(told, ElementsAre("begins with those of job-1: " + chosen));
  Ready(1, tuned, 0);
  EndedAs(1, tuned, 0, RANK_HOPELESS);
  Cleared(1, tuned);
  EXPECT_EQ(*service_->Retry(tuned), STARTING) << "its plan holds";
  EXPECT_THAT(Asked(), IsEmpty());
}

TEST_F(WeightsSourceTest, TheNewestIsTheModelOfAJobThatSucceededAndElseACheckpoint) {
  ConnectOn(1, "worker-0", "one");
  const std::string done = Ran(Base("done"), RANK_SUCCEEDED);
  const std::string first = Submit(From(done));
  auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_FALSE(asked[0].second.model().has_checkpoint());
  EXPECT_EQ(asked[0].second.model().weights().from_output(), "done-of-/model.safetensors");
  EXPECT_EQ(PlannedWith(1, first, ""), "done-of-/model.safetensors");
  Submit(From(done, "", false, /*step=*/7));
  asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].second.model().checkpoint().choice().step(), 7u);

  const std::string running = Submit(Base("running"));
  Submit(From("running"));
  asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_TRUE(asked[0].second.model().checkpoint().newest());
}

TEST_F(WeightsSourceTest, OnlyAWorkerThatSeesTheFilesIsAsked) {
  ConnectOn(1, "worker-1", "one");
  const std::string base = Ran(Base("base"), RANK_HOPELESS);
  ConnectOn(2, "worker-0", "two");
  for (int i = 0; i < 3; ++i) {
    Submit(From(base));
    const auto asked = Asked();
    ASSERT_THAT(asked, SizeIs(1));
    EXPECT_EQ(asked[0].first, 1u);
  }
  service_->WorkerDisconnected(1, "gone");
  Settle();
  Pass(200, {2});
  Asked();
  const absl::StatusOr<Submitted> late = service_->Submit(From(base));
  ASSERT_TRUE(late.ok()) << late.status();
  Settle();
  EXPECT_THAT(Asked(), IsEmpty());
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(late->job_id, &reason), Admission::kRefused);
  EXPECT_THAT(std::string(reason.message()),
              HasSubstr("what job-1 wrote is on worker worker-1, which is not connected"));
  ConnectOn(3, "worker-2", "one");
  Submit(From(base));
  const auto asked = Asked();
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked.back().first, 3u) << "it has the same output root";
}

TEST_F(WeightsSourceTest, JobsWithoutWeightsAreRefusedWithTheReason) {
  ConnectOn(1, "worker-0", "one");
  EXPECT_EQ(WhyNot(From("nobody")),
            "job.textproto:9:3: weights.from_job: there is no job 'nobody'; `adjoin ps` lists all");
  EXPECT_THAT(WhyNot(From("job-77")), HasSubstr("there is no job 'job-77'"));

  NewJob waiting = Base("waiting");
  waiting.spec.set_ranks(9);
  Submit(std::move(waiting));
  EXPECT_THAT(WhyNot(From("waiting")), HasSubstr("job-1 is pending and has not started: it has left no weights yet"));

  NewJob plain = Base("plain");
  plain.spec.clear_checkpoint();
  const std::string failed = Ran(plain, RANK_HOPELESS);
  EXPECT_THAT(WhyNot(From("plain")), AllOf(HasSubstr("is failed and writes no checkpoints (checkpoint { dir: ... })"),
                                           HasSubstr("its weights are there when it has succeeded")));
  NewJob also_plain = plain;
  also_plain.spec.set_name("also-plain");
  also_plain.spec.set_output_dir("also-plain");
  Ran(also_plain, RANK_SUCCEEDED);
  EXPECT_THAT(WhyNot(From("also-plain", "", /*best=*/true)), HasSubstr("leave out best and step"));
  EXPECT_EQ(WhyNot(From("also-plain")), "");

  NewJob prediction = Base("prediction");
  prediction.spec.set_kind(PREDICT);
  Submit(std::move(prediction));
  EXPECT_THAT(WhyNot(From("prediction")), HasSubstr("is of kind PREDICT and has no weights of its own"));

  NewJob again = Base("again");
  const std::string first = Ran(again, RANK_SUCCEEDED);
  again.replace_output = true;
  const std::string second = Ran(again, RANK_SUCCEEDED);
  EXPECT_THAT(WhyNot(From(first)), HasSubstr("has no model any more: " + second + " has replaced it"));
  EXPECT_THAT(WhyNot(From("again")),
              AllOf(HasSubstr("'again' is the name of 2 jobs: " + first), HasSubstr("give the id of one")));
}

TEST_F(WeightsSourceTest, NamesMeanTheCallersOwnJobsAndFoldersOfOthersAreRefused) {
  ConnectOn(1, "worker-0", "one");
  const std::string alices = Ran(Base("base", "alice"), RANK_HOPELESS);
  EXPECT_EQ(Try(From("base", "bob")).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(WhyNot(From(alices, "bob")), HasSubstr("the folder of job-1, which is somebody else's"));
  NewJob admin = From(alices, "bob");
  admin.any_folder = true;
  EXPECT_EQ(WhyNot(admin), "");
  const std::string bobs = Ran(Base("base", "bob"), RANK_HOPELESS);
  const std::string tuned = Submit(From("base", "bob"));
  EXPECT_EQ((*SpecOf(tuned))->weights().from_job(), bobs);
}

TEST_F(WeightsSourceTest, AJobWithoutAWorkerIsCheckedWhenOneConnectsAlsoByTheNextCoordinator) {
  ConnectOn(1, "worker-0", "one");
  const std::string base = Ran(Base("base"), RANK_HOPELESS);
  service_->WorkerDisconnected(1, "gone");
  Settle();
  Pass(200, {});
  const std::string tuned = Submit(From("base"));
  Ran(Base("base2"), RANK_HOPELESS);
  Restart();
  ConnectOn(2, "worker-0", "one");
  const auto asked = Asked();
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0].second.model().weights().from_job(), base);
  const std::string chosen = Chosen(asked[0].second);
  EXPECT_EQ(PlannedWith(2, tuned, chosen), chosen);
}

TEST_F(WeightsSourceTest, AWorkerThatTellsNoCheckpointIsNotBelieved) {
  ConnectOn(1, "worker-0", "one");
  Ran(Base("base"), RANK_HOPELESS);
  const std::string tuned = Submit(From("base"));
  Asked();
  EXPECT_EQ(PlannedWith(1, tuned, ""), "no plan was asked for");
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(tuned, &reason), Admission::kRefused);
  EXPECT_THAT(std::string(reason.message()), HasSubstr("worker-0 does not say which checkpoint it chose"));
}

TEST_F(WeightsSourceTest, AWorkerThatNamesAnotherCheckpointIsNotBelieved) {
  ConnectOn(1, "worker-0", "one");
  Ran(Base("base"), RANK_HOPELESS);
  Submit(From("base", "", false, /*step=*/40));
  const auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  CheckpointRead read = asked[0].second.model().checkpoint();
  const std::string right = Chosen(asked[0].second), name = right.substr(right.rfind('/'));
  EXPECT_TRUE(IsFor(read, right));
  EXPECT_FALSE(IsFor(read, Chosen(asked[0].second, 41)));
  read.mutable_choice()->clear_step();
  EXPECT_TRUE(IsFor(read, Chosen(asked[0].second, 41)));
  std::string of_another = right;
  of_another.back() = of_another.back() == '0' ? '1' : '0';
  for (const std::string& wrong :
       {std::string("a\nb"), "other/ckpt" + name, "base/ckpt/x/.." + name, "base/ckpt/." + name, name.substr(1),
        of_another, right + "/", right + "0", std::string("base/ckpt/step-40.1-") + right.substr(right.size() - 16),
        std::string("base/ckpt/step-")}) {
    EXPECT_FALSE(IsFor(read, wrong)) << wrong;
    const std::string tuned = Submit(From("base"));
    Asked();
    EXPECT_EQ(PlannedWith(1, tuned, wrong), "no plan was asked for");
    absl::Status reason;
    EXPECT_EQ(service_->AdmissionOf(tuned, &reason), Admission::kRefused);
    EXPECT_THAT(std::string(reason.message()), HasSubstr("worker-0: it names another checkpoint"));
  }
}

TEST_F(WeightsSourceTest, AWorkerWithoutRoomForTheWeightsHoldsNobodyElseUp) {
  ConnectOn(1, "worker-1", "one");
  const std::string base = Ran(Base("base", "alice"), RANK_HOPELESS);
  ConnectOn(2, "worker-0", "two");
  // None answers. One owner gets no more than a part of the room.
  for (int i = 0; i < 10; ++i) {
    const std::string owner = absl::StrCat("owner-", i);
    for (int k = 0; k < 4; ++k) {
      NewJob job = From(base, owner);
      job.any_folder = true;
      Submit(std::move(job));
    }
  }
  const auto asked = Asked();
  EXPECT_THAT(asked, SizeIs(16)) << "all the room of worker-1";
  for (const auto& [to, probe] : asked) EXPECT_EQ(to, 1u);
  NewJob other;
  other.spec = Spec("net", 1, /*with_data=*/true);
  other.owner = "zoe";
  Submit(std::move(other));
  const auto now = Asked();
  ASSERT_THAT(now, SizeIs(1));
  EXPECT_EQ(now[0].first, 2u);
}

TEST_F(WeightsSourceTest, ThePlanIsOfTheFileThatTheWorkerFound) {
  ConnectOn(1, "worker-0", "one");
  const std::string done = Ran(Base("done"), RANK_SUCCEEDED);
  PlannedWith(1, Submit(From(done)), "", Sums());
  ASSERT_TRUE(planned_sums_.has_value());
  EXPECT_EQ(planned_sums_->SerializeAsString(), Sums().SerializeAsString());

  NewJob reads = Base("reads");
  reads.spec.mutable_weights()->set_from_output("done-of-/model.safetensors");
  PlannedWith(1, Submit(std::move(reads)), "", Sums());
  EXPECT_TRUE(planned_sums_.has_value());

  NewJob own = Base("own");
  own.spec.mutable_weights()->set_init_from("w.safetensors");
  PlannedWith(1, Submit(std::move(own)), "", Sums());
  EXPECT_FALSE(planned_sums_.has_value()) << "that file is the user's";
}

TEST_F(WeightsSourceTest, SumsThatAreNoneAreNotBelieved) {
  ConnectOn(1, "worker-0", "one");
  const std::string done = Ran(Base("done"), RANK_SUCCEEDED);
  std::vector<FileSums> wrong(6, Sums());
  wrong[0].set_bytes(-1);
  wrong[1].set_chunk_bytes(0);
  wrong[2].add_sum("");
  wrong[3].set_sum(0, "0123456789abcdef0123456789abcde\n");
  wrong[4].set_sum(0, std::string(33, '0'));
  for (int i = 0; i < 1024; ++i) wrong[5].add_sum(wrong[5].sum(0));
  for (const FileSums& sums : wrong) {
    const std::string tuned = Submit(From(done));
    EXPECT_EQ(PlannedWith(1, tuned, "", sums), "no plan was asked for");
    absl::Status reason;
    EXPECT_EQ(service_->AdmissionOf(tuned, &reason), Admission::kRefused);
    EXPECT_THAT(std::string(reason.message()), HasSubstr("worker-0: its checksums of the file of weights"));
  }
}

TEST_F(WeightsSourceTest, AJobRunsOnNodesThatSeeItsWeights) {
  ConnectOn(1, "worker-1", "one");
  const std::string done = Ran(Base("done"), RANK_SUCCEEDED);
  const std::string busy = Submit(Spec("busy", 2));
  EXPECT_EQ(Job(busy).state(), STARTING) << "it has the two slots of worker-1";
  ConnectOn(2, "worker-0", "two");
  const std::string tuned = Submit(From(done));
  PlannedWith(1, tuned, "", Sums());
  EXPECT_EQ(Job(tuned).state(), PENDING) << "worker-0 has slots, and not the weights";
  EXPECT_THAT(WaitsFor(tuned), HasSubstr("on nodes that share the output root of worker-1, where its weights are"));
  Restart();
  ConnectOn(3, "worker-0", "two");
  EXPECT_EQ(Job(tuned).state(), PENDING) << "also for the next coordinator";
  EXPECT_THAT(WaitsFor(tuned), HasSubstr("where its weights are"));
  ConnectOn(4, "worker-2", "one");
  Pass(60, {3, 4});
  ASSERT_EQ(Job(tuned).state(), STARTING);
  EXPECT_EQ(Describe(tuned)->rank(0).worker(), "worker-2");
}

TEST_F(WeightsSourceTest, AJobWhoseWeightsNoNodeSeesHoldsUpNoOther) {
  ConnectOn(1, "worker-1", "one");
  const std::string done = Ran(Base("done"), RANK_SUCCEEDED);
  const std::string busy = Submit(Spec("busy", 2));
  const std::string tuned = Submit(From(done));
  PlannedWith(1, tuned, "", Sums());
  ConnectOn(2, "worker-0", "two");
  EXPECT_EQ(*service_->Cancel(busy), CANCELLED);
  Pass(600, {2});
  EXPECT_EQ(Job(tuned).state(), PENDING) << "worker-1 is lost, and the weights with it";
  EXPECT_EQ(Job(Submit(Spec("other", 1))).state(), STARTING) << "it asks for the same, and needs no weights";
}

TEST_F(WeightsSourceTest, AnOutputRootThatIsKnownLaterCountsAsWell) {
  ConnectOn(1, "worker-1", "");
  NewJob reads = From("");
  reads.spec.mutable_weights()->Clear();
  reads.spec.mutable_weights()->set_from_output("somewhere/model.safetensors");
  reads.spec.set_ranks(3);
  const std::string job = Submit(std::move(reads));
  PlannedWith(1, job, "", Sums());
  ConnectOn(2, "worker-2", "one");
  EXPECT_EQ(Job(job).state(), PENDING) << "nothing is known of worker-1's output root";
  WorkerMessage heartbeat = Heartbeats();
  heartbeat.mutable_heartbeat()->set_output_id("one");
  Say(1, heartbeat);
  Pass(2, {2});
  EXPECT_EQ(Job(job).state(), STARTING) << "on both";
}

}  // namespace
}  // namespace adjoin
