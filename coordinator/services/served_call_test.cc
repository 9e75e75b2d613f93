// A real server that has no thread left is found out.
#include "coordinator/services/served_call.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {
namespace {

std::chrono::system_clock::time_point Soon() { return std::chrono::system_clock::now() + std::chrono::seconds(20); }

// Holds the thread of every call but DescribeJob until it is let go.
class Holding final : public Adjoin::Service {
 public:
  grpc::Status ListJobs(grpc::ServerContext*, const ListJobsRequest*, ListJobsResponse*) override {
    let_go.WaitForNotification();
    return grpc::Status::OK;
  }
  absl::Notification let_go;
};

TEST(ServedCallTest, FindsAServerWithoutThreads) {
  Holding service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  grpc::ResourceQuota quota("few");
  quota.SetMaxThreads(8);
  builder.SetResourceQuota(quota);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  ServedCall served(*server);
  EXPECT_EQ(served(absl::Seconds(10)), absl::OkStatus()) << "an error of the handler is an answer";

  auto stub =
      Adjoin::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  std::vector<std::thread> callers;
  for (int i = 0; i < 20; ++i) {
    callers.emplace_back([&] {
      grpc::ClientContext context;
      context.set_deadline(Soon());
      ListJobsResponse response;
      stub->ListJobs(&context, ListJobsRequest(), &response);
    });
  }
  absl::Status status;
  for (const auto deadline = Soon(); status.ok() && std::chrono::system_clock::now() < deadline;) {
    status = served(absl::Seconds(1));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status)) << status;
  service.let_go.Notify();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(served(absl::Seconds(10)), absl::OkStatus());
  server->Shutdown(std::chrono::system_clock::now());
}

}  // namespace
}  // namespace adjoin
