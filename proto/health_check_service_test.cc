// A server with no other service, as a worker daemon's: nothing but the health check itself answers.
#include "proto/health_check_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace adjoin {
namespace {

using grpc::health::v1::Health;
using ::testing::HasSubstr;

std::chrono::system_clock::time_point Soon() { return std::chrono::system_clock::now() + std::chrono::seconds(20); }

struct Watching {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<HealthCheckService::Response>> reader;
  HealthCheckService::Response first;
  bool read = false;
};

TEST(HealthCheckServiceTest, WatchersAreBoundedAndChecksGoOn) {
  HealthCheckService health({"adjoin.Adjoin"});
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&health);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  auto stub =
      Health::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  auto check = [&](const std::string& service) {
    grpc::ClientContext context;
    context.set_deadline(Soon());
    HealthCheckService::Request request;
    request.set_service(service);
    HealthCheckService::Response response;
    const grpc::Status status = stub->Check(&context, request, &response);
    return status.ok() ? HealthCheckService::Response::ServingStatus_Name(response.status())
                       : std::to_string(status.error_code());
  };
  EXPECT_EQ(check(""), "SERVING");
  EXPECT_EQ(check("adjoin.Adjoin"), "SERVING");
  EXPECT_EQ(check("nothing"), std::to_string(grpc::StatusCode::NOT_FOUND));

  auto watch = [&] {
    auto watching = std::make_unique<Watching>();
    watching->context.set_deadline(Soon());
    watching->reader = stub->Watch(&watching->context, HealthCheckService::Request());
    watching->read = watching->reader->Read(&watching->first);
    return watching;
  };
  std::vector<std::unique_ptr<Watching>> open;
  for (int i = 0; i < HealthCheckService::kMostWatchers; ++i) {
    open.push_back(watch());
    ASSERT_TRUE(open.back()->read) << i;
    EXPECT_EQ(open.back()->first.status(), HealthCheckService::Response::SERVING);
  }
  auto refused = watch();
  EXPECT_FALSE(refused->read);
  const grpc::Status status = refused->reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("which is the limit"));
  EXPECT_EQ(check(""), "SERVING");

  // A watcher that goes makes room for another one.
  open.back()->context.TryCancel();
  open.back()->reader->Finish();
  open.pop_back();
  const auto deadline = Soon();
  auto next = watch();
  while (!next->read && std::chrono::system_clock::now() < deadline) next = watch();
  EXPECT_TRUE(next->read);
  next->context.TryCancel();
  for (auto& each : open) each->context.TryCancel();
  server->Shutdown(std::chrono::system_clock::now());
}

}  // namespace
}  // namespace adjoin
