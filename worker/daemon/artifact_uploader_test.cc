#include "worker/daemon/artifact_uploader.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.grpc.pb.h"
#include "worker/daemon/mount_calls.h"
#include "worker/testing/dead_file_system.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// Takes uploads, and keeps what came of each when it has ended.
class Uploads final : public WorkerLink::Service {
 public:
  Uploads() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }
  ~Uploads() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // What came first of all.
  std::string AwaitFirst() {
    absl::MutexLock lock(&mutex_);
    const bool came = changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)), [&] { return !came_.empty(); });
    return came ? came_.begin()->second : "no upload";
  }
  // The bytes, or "error: " with the error.
  std::string Await(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    const bool came = changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)), [&] { return came_.count(id) > 0; });
    return came ? came_[id] : "no upload";
  }
  // How many bytes have come of it. Waits for `least`.
  size_t AwaitBytes(const std::string& id, size_t least) {
    absl::MutexLock lock(&mutex_);
    changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)), [&] { return bytes_[id] >= least; });
    return bytes_[id];
  }
  // Uploads whose bytes have come get no answer while this is true.
  void Hold(bool held) {
    absl::MutexLock lock(&mutex_);
    held_ = held;
    changed_.NotifyAll();
  }

 private:
  grpc::Status UploadArtifact(grpc::ServerContext* context, grpc::ServerReader<ArtifactChunk>* reader,
                              UploadArtifactResponse* response) override {
    std::string id, data, error;
    int64_t total = 0;
    for (ArtifactChunk chunk; reader->Read(&chunk);) {
      if (!chunk.request_id().empty()) id = chunk.request_id();
      total += chunk.total_bytes();
      data += chunk.data();
      error += chunk.error();
      absl::MutexLock lock(&mutex_);
      bytes_[id] = data.size();
      changed_.NotifyAll();
    }
    if (error.empty() && total != static_cast<int64_t>(data.size())) error = "it has another size than was told";
    absl::MutexLock lock(&mutex_);
    came_[id] = error.empty() ? data : absl::StrCat("error: ", error);
    changed_.NotifyAll();
    changed_.Wait(mutex_, Deadline::After(absl::Seconds(60)), [&] { return !held_; });
    return grpc::Status::OK;
  }

  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::map<std::string, std::string> came_;
  std::map<std::string, size_t> bytes_;
  bool held_ = false;
};

class ArtifactUploaderTest : public ::testing::Test {
 protected:
  ArtifactUploaderTest() : root_(::testing::TempDir() + "/uploader-XXXXXX") {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
    fs::create_directories(root_ + "/run");
    fs::create_directories(root_ + "/dead");
  }
  ~ArtifactUploaderTest() override { fs::remove_all(root_); }

  void Put(const std::string& name, const std::string& content) {
    std::ofstream(absl::StrCat(root_, "/run/", name), std::ios::binary) << content;
  }
  static SendArtifact Request(const std::string& id, const std::string& folder, const std::string& name = "model") {
    SendArtifact request;
    request.set_request_id(id);
    request.set_output_dir(folder);
    request.set_name(name);
    return request;
  }
  // `folder` is of a file system that stops after `sent` bytes of a file.
  void ExpectHoldsUpItsOwnFilesOnly(const std::string& folder, size_t sent) {
    Put("model", "weights");
    Uploads uploads;
    ArtifactUploader::Options options;
    options.files = {.of_one_mount = 2, .waiting_for_one = 0, .in_all = 3, .time = absl::Minutes(10)};
    options.patience = absl::Seconds(2);
    auto uploader = std::make_unique<ArtifactUploader>(
        root_, [&] { return uploads.channel(); }, options);
    for (const char* id : {"first", "second"}) uploader->Start(Request(id, folder));
    for (const char* id : {"first", "second"}) {
      EXPECT_EQ(uploads.Await(id),
                absl::StrCat("error: the file system of folder '", folder, "' did not answer within 2s"));
      EXPECT_EQ(uploads.AwaitBytes(id, sent), sent);
    }
    // They are still there.
    uploader->Start(Request("third", folder));
    EXPECT_THAT(uploads.Await("third"),
                HasSubstr("the worker sends many files already: try again later (2 others wait"));
    uploader->Start(Request("good", "run"));
    EXPECT_EQ(uploads.Await("good"), "weights");

    const Deadline soon = Deadline::After(absl::Seconds(10));
    uploader.reset();
    EXPECT_FALSE(soon.Expired()) << "it waited for the file system";
  }

  std::string root_;
};

TEST_F(ArtifactUploaderTest, AFileComesWholeAndOneThatIsMissingAsAnError) {
  Uploads uploads;
  ArtifactUploader uploader(root_, [&] { return uploads.channel(); });
  std::string content(3'000'000, 'x');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7919 >> 8);
  Put("model", content);
  Put("empty", "");
  uploader.Start(Request("whole", "run"));
  uploader.Start(Request("nothing", "run", "empty"));
  uploader.Start(Request("missing", "run", "none"));
  EXPECT_TRUE(uploads.Await("whole") == content);
  EXPECT_EQ(uploads.Await("nothing"), "");
  EXPECT_THAT(uploads.Await("missing"), StartsWith("error: "));
  SendArtifact rest = Request("rest", "run");
  rest.set_from(2'900'000);
  uploader.Start(rest);
  EXPECT_TRUE(uploads.Await("rest") == content.substr(2'900'000));
}

TEST_F(ArtifactUploaderTest, AFileSystemThatDoesNotAnswerHoldsUpUploadsOfItsOwnFilesOnly) {
  DeadFileSystem dead(root_ + "/dead");
  if (!dead.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
  ExpectHoldsUpItsOwnFilesOnly("dead/run", 0);
  dead.End();
}

TEST_F(ArtifactUploaderTest, AFileSystemThatStopsInTheMiddleOfAFileHoldsUpUploadsOfItsOwnFilesOnly) {
  constexpr size_t kAnswered = 1 << 20;
  DeadFileSystem stops(root_ + "/dead", StoppingFile{.name = "model", .bytes = 3 << 20, .answered = kAnswered});
  if (!stops.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
  ExpectHoldsUpItsOwnFilesOnly("dead", kAnswered);
  stops.End();
}

TEST_F(ArtifactUploaderTest, TheEndWaitsForNoFileSystemThatStopsInTheMiddleOfAFile) {
  constexpr size_t kAnswered = 1 << 20;
  DeadFileSystem stops(root_ + "/dead", StoppingFile{.name = "model", .bytes = 3 << 20, .answered = kAnswered});
  if (!stops.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
  Uploads uploads;
  ArtifactUploader::Options options;
  options.patience = absl::Hours(1);
  auto uploader = std::make_unique<ArtifactUploader>(
      root_, [&] { return uploads.channel(); }, options);
  uploader->Start(Request("first", "dead"));
  EXPECT_EQ(uploads.AwaitBytes("first", kAnswered), kAnswered);
  const Deadline soon = Deadline::After(absl::Seconds(10));
  uploader.reset();
  EXPECT_FALSE(soon.Expired());
  stops.End();
}

TEST_F(ArtifactUploaderTest, AFileThatIsSentWholeLeavesItsRoomToTheNext) {
  Put("model", "weights");
  Uploads uploads;
  ArtifactUploader::Options options;
  options.files = {
      .of_one_mount = 1, .waiting_for_one = 2, .in_all = 3, .waiting_for_thread = 3, .time = absl::Minutes(10)};
  ArtifactUploader uploader(
      root_, [&] { return uploads.channel(); }, options);
  uploads.Hold(true);  // the coordinator has taken none of them yet
  for (int i = 0; i < 10; ++i) {
    const std::string id = absl::StrCat("upload-", i);
    uploader.Start(Request(id, "run"));
    EXPECT_EQ(uploads.Await(id), "weights") << id;
  }
  uploads.Hold(false);
}

TEST_F(ArtifactUploaderTest, AnUploadThatFindsNoRoomIsToldSoAndLeavesItsPlace) {
  Put("model", "weights");
  DeadFileSystem dead(root_ + "/dead");
  if (!dead.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
  Uploads uploads;
  ArtifactUploader::Options options;
  options.files = {
      .of_one_mount = 1, .waiting_for_one = 3, .in_all = 4, .waiting_for_thread = 1, .time = absl::Minutes(10)};
  options.patience = absl::Seconds(4);
  auto uploader = std::make_unique<ArtifactUploader>(
      root_, [&] { return uploads.channel(); }, options);
  uploader->Start(Request("first", "dead/run"));
  EXPECT_EQ(uploads.Await("first"), "error: the file system of folder 'dead/run' did not answer within 4s");
  for (const char* id : {"second", "third", "fourth"}) {
    uploader->Start(Request(id, "dead/run"));
    EXPECT_EQ(uploads.Await(id), "error: the worker sends many files already: try again later") << id;
  }
  uploader->Start(Request("good", "run"));
  EXPECT_EQ(uploads.Await("good"), "weights") << "only the first still has a thread";
  uploader.reset();
  dead.End();
}

TEST_F(ArtifactUploaderTest, TheEndWaitsForNoFileSystem) {
  DeadFileSystem dead(root_ + "/dead");
  if (!dead.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
  Uploads uploads;
  ArtifactUploader::Options options;
  options.files = {.of_one_mount = 1, .waiting_for_one = 0, .in_all = 2, .time = absl::Hours(1)};
  options.patience = absl::Hours(1);
  auto uploader = std::make_unique<ArtifactUploader>(
      root_, [&] { return uploads.channel(); }, options);
  for (const char* id : {"first", "second"}) uploader->Start(Request(id, "dead/run"));
  EXPECT_THAT(uploads.AwaitFirst(), HasSubstr("sends many files already")) << "the other one waits for its files";
  const Deadline soon = Deadline::After(absl::Seconds(10));
  uploader.reset();
  EXPECT_FALSE(soon.Expired());
  dead.End();
}

}  // namespace
}  // namespace adjoin
