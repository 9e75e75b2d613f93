#include "worker/daemon/output_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "worker/daemon/known_output_id.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

std::string Folder(const std::string& name) {
  const std::string folder = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(OutputIdTest, DaemonsThatAskAtOnceGetOneId) {
  const std::string root = Folder("shared");
  std::vector<std::string> ids(8);
  std::vector<std::thread> daemons;
  for (std::string& id : ids) daemons.emplace_back([&] { id = OutputId(root).value_or("failed"); });
  for (std::thread& daemon : daemons) daemon.join();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u);
  EXPECT_EQ(ids[0].size(), 32u);
  EXPECT_EQ(OutputId(root).value(), ids[0]) << "and stays";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root)) files += entry.path().empty() ? 0 : 1;
  EXPECT_EQ(files, 1) << "nothing else is left";
}

TEST(OutputIdTest, OtherFoldersHaveOtherIds) {
  EXPECT_NE(OutputId(Folder("one")).value(), OutputId(Folder("two")).value());
}

TEST(OutputIdTest, ErrorsNameTheFileAndTheReason) {
  EXPECT_EQ(OutputId("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
  const std::string root = Folder("odd");
  std::ofstream(root + "/.adjoin-output-id") << "something else";
  const absl::Status status = OutputId(root).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("odd/.adjoin-output-id"));
}

// A file server that answers when the test lets it; the last read may outlive the reader.
struct Server {
  absl::StatusOr<std::string> Read() {
    absl::MutexLock lock(&mutex);
    ++reads;
    changed.NotifyAll();
    changed.Wait(mutex, Deadline::After(absl::Seconds(30)), [this] { return answers; });
    return answer;
  }
  void Set(bool does, absl::StatusOr<std::string> what) {
    absl::MutexLock lock(&mutex);
    answers = does;
    answer = std::move(what);
    changed.NotifyAll();
  }
  absl::Mutex mutex;
  MonotonicCondition changed;
  bool answers = true;
  absl::StatusOr<std::string> answer = "one";
  int reads = 0;
};

TEST(KnownOutputIdTest, TakesAnAnswerThatComesLate) {
  const auto server = std::make_shared<Server>();
  KnownOutputId output([server] { return server->Read(); });
  server->Set(false, "one");
  EXPECT_EQ(output.LookAgain(absl::Milliseconds(1)), "");
  EXPECT_EQ(output.Get(), "") << "and does not wait";
  server->Set(true, "one");
  EXPECT_EQ(output.LookAgain(absl::Seconds(30)), "one");
  EXPECT_EQ(output.Get(), "one");
}

TEST(KnownOutputIdTest, KeepsTheLastIdWhileTheServerHangs) {
  const auto server = std::make_shared<Server>();
  KnownOutputId output([server] { return server->Read(); });
  EXPECT_EQ(output.LookAgain(absl::Seconds(30)), "one");
  server->Set(true, absl::UnavailableError("the file server is gone"));
  EXPECT_EQ(output.LookAgain(absl::Seconds(30)), "one");
  server->Set(true, "two");
  EXPECT_EQ(output.LookAgain(absl::Seconds(30)), "two") << "another one is mounted";
  server->Set(false, "three");
  EXPECT_EQ(output.LookAgain(absl::Milliseconds(1)), "two");
  EXPECT_EQ(output.Get(), "two");
  server->Set(true, "three");
}

TEST(KnownOutputIdTest, ReadsInTheBackgroundUntilItIsKnown) {
  const auto server = std::make_shared<Server>();
  KnownOutputId output([server] { return server->Read(); });
  server->Set(true, absl::UnavailableError("not mounted"));
  EXPECT_EQ(output.LookAgain(absl::Seconds(30)), "");
  server->Set(true, "one");
  output.Get();
  {
    absl::MutexLock lock(&server->mutex);
    EXPECT_TRUE(
        server->changed.Wait(server->mutex, Deadline::After(absl::Seconds(30)), [&] { return server->reads == 2; }));
  }
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  while (output.Get().empty() && !deadline.Expired()) std::this_thread::yield();
  EXPECT_EQ(output.Get(), "one");
}

}  // namespace
}  // namespace adjoin
