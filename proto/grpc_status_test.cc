#include "proto/grpc_status.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {
namespace {

// Answers every submission with an error, whose text is the submission's.
class Refusing final : public Adjoin::Service {
 public:
  grpc::Status Submit(grpc::ServerContext*, const SubmitRequest* request, SubmitResponse*) override {
    return ToGrpc(absl::InvalidArgumentError(request->spec_source()));
  }
};

class GrpcStatusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = Adjoin::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  // What comes of an error through a real connection.
  absl::Status Through(const std::string& text) {
    SubmitRequest request;
    request.set_spec_source(text);
    SubmitResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->Submit(&context, request, &response);
    EXPECT_TRUE(IsAnswer(status)) << status.error_message();
    return FromGrpc(status);
  }

  Refusing service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Adjoin::Stub> stub_;
};

TEST_F(GrpcStatusTest, ALongErrorArrivesCutAndSaysSo) {
  const absl::Status status = Through("the file " + std::string(20000, 'x'));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(status.message(), "the file xxx")) << status.message();
  EXPECT_TRUE(absl::EndsWith(status.message(), " more bytes)")) << status.message();
  EXPECT_GT(status.message().size(), kMaxStatusBytes);
}

TEST_F(GrpcStatusTest, ALongErrorBeyondAsciiArrivesToo) {
  std::string text;
  for (int i = 0; i < 7000; ++i) text += "\xe5\xb1\x82";
  const absl::Status status = Through(text);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(status.message(), "\xe5\xb1\x82\xe5\xb1\x82")) << status.message();
  EXPECT_TRUE(absl::EndsWith(status.message(), " more bytes)")) << status.message();
  EXPECT_GT(status.message().size(), kMaxStatusBytes / 2);
}

TEST_F(GrpcStatusTest, WhatIsNotPrintableIsWrittenOut) {
  EXPECT_EQ(Through("a\x1b[31mb\nc\xff").message(), "a\\x1b[31mb\\nc\\xff");
  EXPECT_EQ(Through("layer \"\xc3\xa9\": 100 % wrong").message(), "layer \"\xc3\xa9\": 100 % wrong");
}

}  // namespace
}  // namespace adjoin
