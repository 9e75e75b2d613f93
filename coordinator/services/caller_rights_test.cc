#include "coordinator/services/caller_rights.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

TEST(CallerRightsTest, EveryMethodHasItsRolesAndOnlyWorkersCallTheirs) {
  const google::protobuf::FileDescriptor* file = SubmitRequest::descriptor()->file();
  ASSERT_EQ(file->service_count(), 2);
  const Role roles[] = {Role::kAdmin, Role::kUser, Role::kViewer, Role::kWorker};
  for (int s = 0; s < 2; ++s) {
    const google::protobuf::ServiceDescriptor* service = file->service(s);
    for (int m = 0; m < service->method_count(); ++m) {
      const std::string method = service->method(m)->name();
      if (IsForEveryone(KindOf(method))) {
        EXPECT_TRUE(method == "JoinNode" || method == "ReadAuthorities") << method;
        continue;
      }
      EXPECT_EQ(MayCall({"", Role::kAdmin, true}, method), absl::OkStatus()) << method << " is not in the table";
      for (Role role : roles) {
        const bool workers = service->name() == "WorkerLink";
        const bool may = MayCall({"x", role, false}, method).ok();
        if (workers || role == Role::kWorker) {
          EXPECT_EQ(may, workers && role == Role::kWorker) << method;
        }
        if (!workers && role == Role::kAdmin) {
          EXPECT_TRUE(may) << method;
        }
      }
    }
  }
  const Caller viewer{"eve", Role::kViewer, false}, user{"alice", Role::kUser, false};
  for (const char* method :
       {"Submit", "CancelJob", "RetryJob", "HoldJob", "ReleaseJob", "TraceJob", "ReadLogs", "GetArtifact",
        "CreateToken", "ListTokens", "RevokeToken", "CreateJoinToken", "RevokeNode"}) {
    EXPECT_EQ(MayCall(viewer, method).code(), absl::StatusCode::kPermissionDenied) << method;
  }
  for (const char* method : {"CreateToken", "ListTokens", "RevokeToken", "CreateJoinToken", "RevokeNode"}) {
    EXPECT_EQ(MayCall(user, method).code(), absl::StatusCode::kPermissionDenied) << method;
  }
  EXPECT_EQ(MayCall({"root", Role::kAdmin, false}, "Shutdown").code(), absl::StatusCode::kPermissionDenied);
}

TEST(CallerRightsTest, UsersGivePrioritiesUpToTheLimit) {
  const Caller local{"", Role::kAdmin, true}, admin{"root", Role::kAdmin, false}, alice{"alice", Role::kUser, false};
  for (int32_t priority : {-2000000000, -1, 0, 5}) EXPECT_TRUE(MayGivePriority(alice, priority, 5).ok()) << priority;
  for (const Caller& caller : {local, admin}) EXPECT_TRUE(MayGivePriority(caller, 2000000000, 0).ok());
  const absl::Status refused = MayGivePriority(alice, 6, 5);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.message(),
            "user alice may give a job at most priority 5, which is the coordinator's "
            "--max-user-priority, not 6; an admin may give any");
}

TEST(CallerRightsTest, OnlyOwnersAndAdminsMayChangeOrReadAJob) {
  const Caller local{"", Role::kAdmin, true}, admin{"root", Role::kAdmin, false}, alice{"alice", Role::kUser, false};
  const Caller viewer{"alice", Role::kViewer, false};
  for (const std::string owner : {"alice", "bob", ""}) {
    for (const Caller& caller : {local, admin}) {
      EXPECT_TRUE(MayChange(caller, owner, "job-1").ok());
      EXPECT_TRUE(MayRead(caller, owner, "job-1", "the log").ok());
    }
    EXPECT_EQ(MayChange(alice, owner, "job-1").ok(), owner == "alice");
    EXPECT_EQ(MayRead(alice, owner, "job-1", "the log").ok(), owner == "alice");
    EXPECT_FALSE(MayRead(viewer, owner, "job-1", "the log").ok());
  }
  EXPECT_EQ(MayChange(alice, "bob", "job-1").message(),
            "user alice may not change job-1, which is bob's; only its owner or an admin may");
  EXPECT_TRUE(CheckWorkerName({"node-1", Role::kWorker, false}, "node-1").ok());
  EXPECT_THAT(std::string(CheckWorkerName({"node-1", Role::kWorker, false}, "node-2").message()),
              HasSubstr("--name node-1"));
}

}  // namespace
}  // namespace adjoin
