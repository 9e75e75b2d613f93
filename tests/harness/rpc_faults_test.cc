#include "tests/harness/rpc_faults.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {
namespace {

constexpr char kList[] = "/adjoin.Adjoin/ListJobs";
constexpr char kFollow[] = "/adjoin.Adjoin/FollowJob";
constexpr char kConnect[] = "/adjoin.WorkerLink/Connect";
constexpr char kUpload[] = "/adjoin.WorkerLink/UploadArtifact";
constexpr int kStreamLength = 20;

class Users : public Adjoin::Service {
 public:
  grpc::Status ListJobs(grpc::ServerContext*, const ListJobsRequest*, ListJobsResponse*) override {
    ++lists;
    return grpc::Status::OK;
  }
  grpc::Status FollowJob(grpc::ServerContext*, const FollowJobRequest*,
                         grpc::ServerWriter<FollowJobResponse>* writer) override {
    ++follows;
    for (int i = 0; i < kStreamLength; ++i) writer->Write(FollowJobResponse());
    return grpc::Status::OK;
  }
  std::atomic<int> lists{0}, follows{0};
};

class Workers : public WorkerLink::Service {
 public:
  grpc::Status Connect(grpc::ServerContext*,
                       grpc::ServerReaderWriter<CoordinatorMessage, WorkerMessage>* stream) override {
    ++connects;
    WorkerMessage message;
    while (stream->Read(&message)) stream->Write(CoordinatorMessage());
    return grpc::Status::OK;
  }
  grpc::Status UploadArtifact(grpc::ServerContext*, grpc::ServerReader<ArtifactChunk>* reader,
                              UploadArtifactResponse*) override {
    ++uploads;
    ArtifactChunk chunk;
    while (reader->Read(&chunk)) {
    }
    return grpc::Status::OK;
  }
  std::atomic<int> connects{0}, uploads{0};
};

class RpcFaultsTest : public ::testing::Test {
 protected:
  RpcFaultsTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&users_);
    builder.RegisterService(&workers_);
    server_ = builder.BuildAndStart();
    auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), grpc::ChannelArguments(),
        faults_.MakeFactories());
    adjoin_ = Adjoin::NewStub(channel);
    link_ = WorkerLink::NewStub(channel);
  }
  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  static void ExpectCode(RpcFault fault, const grpc::Status& status) {
    const bool lost = fault == RpcFault::kLostRequest || fault == RpcFault::kLostResponse;
    EXPECT_EQ(status.error_code(), lost ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::OK)
        << ToString(fault) << ": " << status.error_message();
  }

  RpcFaults faults_{/*seed=*/7, /*delay=*/absl::Milliseconds(30)};
  Users users_;
  Workers workers_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Adjoin::Stub> adjoin_;
  std::unique_ptr<WorkerLink::Stub> link_;
};

TEST_F(RpcFaultsTest, EachKindMeetsOneOfFourCallsInAnOrderOfItsOwn) {
  std::set<std::vector<RpcFault>> orders;
  for (int four = 0; four < 16; ++four) {
    std::vector<RpcFault> order;
    for (int i = 0; i < 4; ++i) order.push_back(faults_.Of(kList, 4 * four + i));
    orders.insert(order);
    EXPECT_THAT(order, ::testing::UnorderedElementsAreArray(kRpcFaults));
  }
  EXPECT_GT(orders.size(), 4u);
  EXPECT_EQ(RpcFaults(7).Of(kList, 9), faults_.Of(kList, 9));
}

TEST_F(RpcFaultsTest, UnaryCalls) {
  for (int call = 0; call < 8; ++call) {
    const RpcFault fault = faults_.Of(kList, call);
    const int before = users_.lists;
    grpc::ClientContext context;
    SetDeadline(context);
    ListJobsResponse response;
    const absl::Time begin = absl::Now();
    ExpectCode(fault, adjoin_->ListJobs(&context, ListJobsRequest(), &response));
    EXPECT_EQ(users_.lists, before + (fault == RpcFault::kLostRequest ? 0 : 1)) << ToString(fault);
    if (fault == RpcFault::kDelay) {
      EXPECT_GE(absl::Now() - begin, absl::Milliseconds(30));
    }
  }
  for (RpcFault fault : kRpcFaults) EXPECT_EQ(faults_.Injected()[kList][fault], 2);
}

TEST_F(RpcFaultsTest, StreamsFromTheServer) {
  for (int call = 0; call < 4; ++call) {
    const RpcFault fault = faults_.Of(kFollow, call);
    const int before = users_.follows;
    grpc::ClientContext context;
    SetDeadline(context);
    auto reader = adjoin_->FollowJob(&context, FollowJobRequest());
    FollowJobResponse response;
    int messages = 0;
    while (reader->Read(&response)) ++messages;
    ExpectCode(fault, reader->Finish());
    EXPECT_EQ(users_.follows, before + (fault == RpcFault::kLostRequest ? 0 : 1)) << ToString(fault);
    if (fault == RpcFault::kNone || fault == RpcFault::kDelay) {
      EXPECT_EQ(messages, kStreamLength);
    }
    if (fault == RpcFault::kLostRequest) {
      EXPECT_EQ(messages, 0);
    }
  }
}

TEST_F(RpcFaultsTest, StreamsBothWaysAndUploads) {
  for (int call = 0; call < 4; ++call) {
    const RpcFault fault = faults_.Of(kConnect, call);
    grpc::ClientContext context;
    SetDeadline(context);
    auto stream = link_->Connect(&context);
    int echoes = 0;
    CoordinatorMessage message;
    while (echoes < kStreamLength && stream->Write(WorkerMessage()) && stream->Read(&message)) ++echoes;
    stream->WritesDone();
    ExpectCode(fault, stream->Finish());
    if (fault == RpcFault::kLostResponse) {
      EXPECT_LT(echoes, kStreamLength) << "the stream breaks";
    }
    if (fault == RpcFault::kLostRequest) {
      EXPECT_EQ(echoes, 0);
    }
  }
  EXPECT_EQ(workers_.connects, 3);
  for (int call = 0; call < 4; ++call) {
    grpc::ClientContext context;
    SetDeadline(context);
    UploadArtifactResponse response;
    auto upload = link_->UploadArtifact(&context, &response);
    for (int i = 0; i < 3; ++i) upload->Write(ArtifactChunk());
    upload->WritesDone();
    ExpectCode(faults_.Of(kUpload, call), upload->Finish());
  }
  EXPECT_EQ(workers_.uploads, 3);
}

}  // namespace
}  // namespace adjoin
