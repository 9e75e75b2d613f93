// One user's job, file or daemon with far too much to tell, or with bytes that are no text: it is told what is wrong,
// and another user's job on the same daemons does not notice.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <hdf5/serial/hdf5.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/fit_message.h"
#include "proto/grpc_status.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "proto/testing/largest_message.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// A stream to the coordinator of a daemon that says what the test wants.
class HostileDaemon {
 public:
  explicit HostileDaemon(const std::string& address)
      : stub_(WorkerLink::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub_->Connect(&context_);
  }
  ~HostileDaemon() {
    context_.TryCancel();
    if (!finished_) stream_->Finish();
  }

  void Say(WorkerMessage message) {
    *message.mutable_header() = MakeHeader(1);
    stream_->Write(message);
  }
  void SayHello(const std::string& name) {
    WorkerMessage message;
    message.mutable_hello()->set_name(name);
    message.mutable_hello()->set_slots(1);
    message.mutable_hello()->set_incarnation(1);
    Say(std::move(message));
  }
  // Returns true when the coordinator has read all up to here: it acknowledges a heartbeat.
  bool IsHeard() {
    WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(++beats_);
    message.mutable_heartbeat()->set_incarnation(1);
    Say(std::move(message));
    CoordinatorMessage answer;
    while (stream_->Read(&answer)) {
      if (answer.has_heartbeat_ack() && answer.heartbeat_ack().sequence() == beats_) return true;
    }
    return false;
  }
  // Reads to the stream's end, and returns why it ended.
  absl::Status End() {
    CoordinatorMessage answer;
    while (stream_->Read(&answer)) {
    }
    finished_ = true;
    return FromGrpc(stream_->Finish());
  }

 private:
  std::unique_ptr<WorkerLink::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<WorkerMessage, CoordinatorMessage>> stream_;
  int64_t beats_ = 0;
  bool finished_ = false;
};

class OversizedMessagesTest : public ::testing::Test {
 protected:
  // Two slots on one daemon: another user's job has one of them until the end of the test.
  void SetUp() override {
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    auto cluster = LocalCluster::Start(1, 2, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    absl::StatusOr<std::string> other = cluster_->Submit(FakeJob("hang", 1));
    ASSERT_TRUE(other.ok()) << other.status();
    other_ = *other;
    auto runs = cluster_->WaitUntil(
        other_, [](const JobSummary& job) { return job.state() == RUNNING; }, Within(30));
    ASSERT_TRUE(runs.ok()) << runs.status();
    epoch_ = runs->epoch();
    auto pids = cluster_->RankPids(other_);
    ASSERT_TRUE(pids.ok()) << pids.status();
    pids_ = *pids;
  }
  void TearDown() override {
    if (cluster_ != nullptr && !other_.empty()) ExpectOtherJobUnharmed();
  }

  void ExpectOtherJobUnharmed() {
    auto described = cluster_->Describe(other_);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->job().state(), RUNNING) << described->job().reason();
    EXPECT_EQ(described->job().epoch(), epoch_);
    EXPECT_EQ(described->job().restarts_counted(), 0u);
    auto pids = cluster_->RankPids(other_);
    ASSERT_TRUE(pids.ok()) << pids.status();
    EXPECT_EQ(*pids, pids_);
    EXPECT_EQ(cluster_->Cli({"ps"}).exit_code, 0);
    // The daemon has kept its one connection.
    const std::string log = ReadLog();
    EXPECT_EQ(Occurrences(log, "worker worker-0 connected"), 1) << log;
  }
  std::string LogPath() const { return cluster_->folder() + "/coordinator-log.err"; }
  std::string ReadLog() const {
    std::ifstream file(LogPath());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static int Occurrences(const std::string& text, const std::string& word) {
    int count = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
    return count;
  }

  std::unique_ptr<LocalCluster> cluster_;
  std::string other_;
  uint64_t epoch_ = 0;
  std::vector<pid_t> pids_;
};

TEST_F(OversizedMessagesTest, APredictionOfManyFilesEndsWell) {
  auto job = cluster_->Submit(FakeJob("files-75000", 1));
  ASSERT_TRUE(job.ok()) << job.status();
  auto end = cluster_->WaitFor(*job, Within(60));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  auto described = cluster_->Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_GT(described->artifact_size(), 1000);
  EXPECT_EQ(described->artifact_size() + described->artifacts_left_out(), 75000u);
  EXPECT_THAT(cluster_->Cli({"describe", *job}).out, HasSubstr(absl::StrCat(" and ", 75000 - 50, " more")));
  // A file that is not listed can be fetched; one that is not there is the worker's to refuse.
  std::string last = "file-74999-";
  last.resize(240, 'f');
  LocalCluster::CliResult got = cluster_->Cli({"get", *job, last, "-O", "-"});
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(got.out, "the last one");
  EXPECT_THAT(cluster_->Cli({"get", *job, "no-such-file", "-O", "-"}).err, HasSubstr("no-such-file"));
  // The coordinator's store keeps the count.
  ASSERT_TRUE(cluster_->KillCoordinator().ok());
  std::ofstream(LogPath(), std::ios::trunc).flush();  // the daemon connects again, once
  ASSERT_TRUE(cluster_->RestartCoordinator().ok());
  auto again = cluster_->Describe(*job);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->artifacts_left_out(), described->artifacts_left_out());
}

TEST_F(OversizedMessagesTest, AFileOfManyLongNamesIsRefusedInAFewWords) {
  std::string header = "{";
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", i, std::string(20000, 'n'),
                    R"(":{"dtype":"F32","shape":[1],"data_offsets":[)", 4 * i, ",", 4 * i + 4, "]}");
  }
  header += "}";
  const uint64_t length = header.size();
  {
    std::ofstream file(cluster_->data_root() + "/long.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << std::string(4000, '\0');
  }
  auto job = cluster_->Submit(FakeJob("succeed", 1, R"(weights { init_from: "long.safetensors" })"));
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << job.status();
  EXPECT_THAT(std::string(job.status().message()),
              AllOf(HasSubstr("weights.init_from"), HasSubstr("does not fit the model"), HasSubstr(" more bytes)")));
}

TEST_F(OversizedMessagesTest, NamesInAFileThatAreNoTextAreShownInHex) {
  const std::string path = cluster_->data_root() + "/names.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hsize_t size = 8;
  const hid_t space = H5Screate_simple(1, &size, nullptr);
  for (const char* name : {"caf\xe9", "b\n2026-11-20 adjoin-coordinator error: forged", "\x1b[2J"}) {
    const hid_t set = H5Dcreate2(file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(set, 0);
    H5Dclose(set);
  }
  H5Sclose(space);
  H5Fclose(file);
  const std::string spec = absl::StrReplaceAll(
      FakeJob("succeed", 1), {{"idx { path: \"mnist/test-images.idx.gz\" }", "hdf5 { path: \"names.h5\" }"}});
  auto job = cluster_->Submit(spec);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << job.status();
  EXPECT_THAT(std::string(job.status().message()),
              AllOf(HasSubstr("names.h5"), HasSubstr("caf\\xe9"), HasSubstr("\\x1b[2J"), HasSubstr("b\\n2026-11-20")));
  EXPECT_THAT(ReadLog(), Not(HasSubstr("\n2026-11-20 adjoin-coordinator error: forged")));
}

TEST_F(OversizedMessagesTest, TextOfAJobIsRefusedWhereItIsLongOrNotPrintable) {
  const auto refusal = [&](const std::string& from, const std::string& to) {
    auto job = cluster_->Submit(absl::StrReplaceAll(FakeJob("succeed", 1), {{from, to}}));
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << job.status();
    return std::string(job.status().message());
  };
  EXPECT_THAT(refusal("loss {", "output_dir: \"out\\n2026-11-20 adjoin: forged\\033[2J\" loss {"),
              AllOf(HasSubstr("test.textproto:5:"), HasSubstr("output_dir is \"out\\n2026-11-20"), Not(HasSubstr("\n")),
                    Not(HasSubstr("\x1b"))));
  EXPECT_THAT(refusal("name: \"succeed\"", absl::StrCat("name: \"", std::string(1000000, 'n'), "\"")),
              AllOf(HasSubstr("test.textproto:1:1: name \"nnn"), HasSubstr("has 1000000 bytes; at most 256")));
  EXPECT_THAT(refusal("mnist/test-images.idx.gz", std::string(5000, 'p')), HasSubstr("has 5000 bytes; at most 4096"));

  SubmitRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_spec_source(FakeJob("succeed", 1));
  SubmitResponse response;
  const auto submit = [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return FromGrpc(cluster_->stub().Submit(&context, request, &response));
  };
  request.set_spec_file(std::string(15 << 20, 'f'));
  EXPECT_THAT(std::string(submit().message()), HasSubstr("(spec_file) has 15728640 bytes; at most 4096"));
  request.set_spec_file("a\x1b[2J");
  EXPECT_THAT(std::string(submit().message()), HasSubstr("\"a\\x1b[2J\" has control characters"));
  request.set_spec_file("job.textproto");
  request.set_idempotency_key("key\n");
  EXPECT_THAT(std::string(submit().message()), HasSubstr("the idempotency key \"key\\n\" has control characters"));
}

TEST_F(OversizedMessagesTest, TheLargestMessageOfEachKindIsTaken) {
  HostileDaemon daemon(cluster_->address());
  daemon.SayHello("honest");
  ASSERT_TRUE(daemon.IsHeard());
  for (const FieldDescriptor* kind : KindsOf(WorkerMessage::descriptor())) {
    if (kind->name() == "hello" || kind->name() == "heartbeat") continue;  // below
    WorkerMessage message;
    LargestSizes sizes;
    sizes.messages = 4;
    FillLargest(&message, kind, sizes);
    Fit(&message);
    daemon.Say(message);
    ASSERT_TRUE(daemon.IsHeard()) << kind->name();
  }
  // A daemon that fits nothing, but below the limit.
  for (const FieldDescriptor* kind : KindsOf(WorkerMessage::descriptor())) {
    if (kind->name() == "hello" || kind->name() == "heartbeat") continue;
    WorkerMessage message;
    LargestSizes sizes;
    sizes.messages = 2;
    FillLargest(&message, kind, sizes);
    FitParts(&message);  // makes UTF-8 of it, without which gRPC reads nothing
    daemon.Say(message);
    ASSERT_TRUE(daemon.IsHeard()) << kind->name();
  }
  WorkerMessage beat;
  FillLargest(&beat, WorkerMessage::descriptor()->FindFieldByName("heartbeat"));
  Fit(&beat);
  beat.mutable_heartbeat()->set_incarnation(1);
  beat.mutable_heartbeat()->clear_condition();
  daemon.Say(beat);
  ASSERT_TRUE(daemon.IsHeard());
  LocalCluster::CliResult listed = cluster_->Cli({"ps"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("honest"), Not(HasSubstr("\x1b"))));
}

TEST_F(OversizedMessagesTest, AHelloIsRefusedWithTheReason) {
  {
    HostileDaemon daemon(cluster_->address());
    daemon.SayHello(std::string(10 << 20, 'w') + "\n\x1b[2J");
    const absl::Status refused = daemon.End();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("name has 10485765 bytes; at most 256 are possible"));
  }
  {
    HostileDaemon daemon(cluster_->address());
    daemon.SayHello("w\n2026-11-20 adjoin-coordinator error: forged");
    EXPECT_THAT(std::string(daemon.End().message()), HasSubstr("name 'w\\n2026-11-20"));
  }
  {
    HostileDaemon daemon(cluster_->address());
    WorkerMessage message;
    WorkerHello& hello = *message.mutable_hello();
    hello.set_name("labelled");
    hello.set_slots(1);
    for (int i = 0; i < 100000; ++i) (*hello.mutable_label())[absl::StrCat("label-", i)] = "x";
    daemon.Say(std::move(message));
    EXPECT_THAT(std::string(daemon.End().message()), HasSubstr("100000 labels; at most 64"));
  }
  {
    HostileDaemon daemon(cluster_->address());  // above the limit of all messages
    daemon.SayHello(std::string(20 << 20, 'w'));
    EXPECT_FALSE(daemon.End().ok());
  }
  EXPECT_THAT(ReadLog(),
              AllOf(Not(HasSubstr("\n2026-11-20 adjoin-coordinator error: forged")), Not(HasSubstr("\x1b"))));
  EXPECT_LT(ReadLog().size(), 100000u);
}

}  // namespace
}  // namespace adjoin
