#include "worker/daemon/node_look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "worker/daemon/node_watch.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class NodeLookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    top_ = testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(top_);
    for (const char* name : {"data", "out", "state"}) fs::create_directories(top_ + "/" + name);
    std::ofstream(top_ + "/rank") << "#!/bin/sh\n";
    chmod((top_ + "/rank").c_str(), 0755);
    NodePlaces places;
    places.data_root = top_ + "/data";
    places.output_root = top_ + "/out";
    places.rank_binary = top_ + "/rank";
    places.state_dir = top_ + "/state";
    look_ = std::make_unique<NodeLook>(places);
  }
  void TearDown() override { umount2((top_ + "/out").c_str(), MNT_DETACH); }
  std::string Condition() { return look_->Look().condition; }

  std::string top_;
  std::unique_ptr<NodeLook> look_;
};

TEST_F(NodeLookTest, ADaemonStartsNoRanksOfAnotherReleaseThanItsOwn) {
  const std::string program = look_->Look().rank_program;
  EXPECT_EQ(program.size(), 32u);
  const auto install = [this](const std::string& text) {
    std::ofstream(top_ + "/new") << text;
    chmod((top_ + "/new").c_str(), 0755);
    fs::rename(top_ + "/new", top_ + "/rank");
  };
  install("#!/bin/sh\necho 2\n");
  EXPECT_EQ(Condition(),
            absl::StrCat("the program ", top_,
                         "/rank is another one than at the daemon's start, as after an upgrade: restart the "
                         "daemon"));
  EXPECT_EQ(Condition(), Condition()) << "until it is restarted";
  EXPECT_EQ(look_->Look().rank_program, program);
  install("#!/bin/sh\n");
  EXPECT_EQ(Condition(), "") << "the same release was installed again";
  std::ofstream(top_ + "/rank", std::ios::app) << "echo 3\n";
  EXPECT_THAT(Condition(), HasSubstr("another one than at the daemon's start"));
}

TEST_F(NodeLookTest, EachPlaceIsEnteredBeforeItIsLookedAt) {
  const std::vector<std::string> places = {top_ + "/rank", top_ + "/state", top_ + "/data", top_ + "/out"};
  std::vector<std::string> entered;
  std::string dead;
  const auto enter = [&](const std::string& path) {
    entered.push_back(path);
    return path == dead ? absl::DeadlineExceededError("dead") : absl::OkStatus();
  };
  const absl::StatusOr<NodeView> seen = look_->LookInto(enter);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->condition, "");
  EXPECT_EQ(seen->output_id.size(), 32u);
  EXPECT_EQ(entered, places);
  for (size_t i = 0; i < places.size(); ++i) {
    dead = places[i];
    entered.clear();
    EXPECT_TRUE(absl::IsDeadlineExceeded(look_->LookInto(enter).status())) << dead;
    EXPECT_EQ(entered.size(), i + 1) << dead << ": what comes after it is not touched";
  }
}

TEST_F(NodeLookTest, NamesWhatIsGoneUntilItIsThereAgain) {
  EXPECT_EQ(Condition(), "");
  const std::string id = look_->Look().output_id;
  EXPECT_EQ(id.size(), 32u);

  fs::remove_all(top_ + "/out");
  EXPECT_EQ(Condition(), absl::StrCat("the output root ", top_,
                                      "/out is gone: make it again, or restart the daemon with another --output-root"));
  EXPECT_EQ(look_->Look().output_id, "");
  fs::create_directories(top_ + "/out");
  EXPECT_EQ(Condition(), "");
  EXPECT_EQ(look_->Look().output_id.size(), 32u);
  EXPECT_NE(look_->Look().output_id, id) << "it is another folder";

  fs::remove_all(top_ + "/data");
  EXPECT_EQ(Condition(), absl::StrCat("the data root ", top_,
                                      "/data is gone: make it again, or restart the daemon with another --data-root"));
  std::ofstream(top_ + "/data") << "a file";
  EXPECT_THAT(Condition(), HasSubstr("/data is gone"));
  fs::remove(top_ + "/data");
  fs::create_directories(top_ + "/data");

  fs::rename(top_ + "/rank", top_ + "/elsewhere");
  EXPECT_EQ(Condition(), absl::StrCat("the program ", top_, "/rank is gone: install it again, or restart the daemon ",
                                      "with another --rank-binary"));
  fs::rename(top_ + "/elsewhere", top_ + "/rank");
  chmod((top_ + "/rank").c_str(), 0644);
  EXPECT_THAT(Condition(), HasSubstr("/rank cannot be run: Permission denied"));
  chmod((top_ + "/rank").c_str(), 0755);
  EXPECT_EQ(Condition(), "");

  fs::remove_all(top_ + "/out");
  fs::remove_all(top_ + "/state");
  EXPECT_THAT(Condition(), HasSubstr("/state is gone: restart the daemon; the output root"));
  fs::create_directories(top_ + "/out");
  fs::create_directories(top_ + "/state");
  EXPECT_THAT(Condition(), HasSubstr("/state is gone (another one is there now): restart the daemon"));
}

TEST_F(NodeLookTest, TheRanksSocketHasToBeThere) {
  NodePlaces places;
  places.data_root = places.output_root = places.state_dir = top_ + "/out";
  places.rank_binary = top_ + "/rank";
  places.socket = top_ + "/state/rank.sock";
  EXPECT_EQ(NodeLook(places).Look().condition,
            absl::StrCat("the ranks' socket ", top_, "/state/rank.sock is gone: restart the daemon"));
}

TEST_F(NodeLookTest, AnotherFileSystemAtTheOutputRootIsNotTheOneThatJobsWriteTo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a tmpfs";
  if (mount("tmpfs", (top_ + "/out").c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "no tmpfs here";
  EXPECT_EQ(Condition(), "");
  const std::string id = look_->Look().output_id;
  std::ofstream(top_ + "/keep") << id << "\n";
  ASSERT_EQ(umount((top_ + "/out").c_str()), 0);
  EXPECT_THAT(Condition(), HasSubstr("another file system is at the output root"));
  EXPECT_FALSE(fs::exists(top_ + "/out/.adjoin-output-id")) << "nothing is written there";
  ASSERT_EQ(mount("tmpfs", (top_ + "/out").c_str(), "tmpfs", 0, "size=1m"), 0);
  fs::copy_file(top_ + "/keep", top_ + "/out/.adjoin-output-id");
  EXPECT_EQ(Condition(), "") << "the same one is mounted again, as its id shows";
  EXPECT_EQ(look_->Look().output_id, id);
}

TEST_F(NodeLookTest, AFullOrReadOnlyOutputRootIsNoPlaceForRanks) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a tmpfs";
  if (mount("tmpfs", (top_ + "/out").c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "no tmpfs here";
  EXPECT_EQ(Condition(), "");
  {
    std::ofstream filler(top_ + "/out/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())) && filler.flush()) {
    }
  }
  EXPECT_EQ(Condition(), absl::StrCat("no space is left for the output root ", top_, "/out"));
  fs::remove(top_ + "/out/filler");
  EXPECT_EQ(Condition(), "");
  ASSERT_EQ(mount("tmpfs", (top_ + "/out").c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m"), 0);
  EXPECT_THAT(Condition(), HasSubstr("/out cannot be written: Read-only file system"));
}

// A node whose file systems answer when the test lets them; the last look may outlive the watch.
struct Node {
  NodeView Look(const NodeWatch::At& at) {
    absl::MutexLock lock(&mutex);
    at("the output root /out");
    ++looks;
    changed.NotifyAll();
    changed.Wait(mutex, Deadline::After(absl::Seconds(30)), [this] { return answers; });
    return view;
  }
  void Set(bool does, NodeView what) {
    absl::MutexLock lock(&mutex);
    answers = does;
    view = std::move(what);
    changed.NotifyAll();
  }
  bool AwaitLooks(int count) {
    absl::MutexLock lock(&mutex);
    return changed.Wait(mutex, Deadline::After(absl::Seconds(30)), [&] { return looks >= count; });
  }
  absl::Mutex mutex;
  MonotonicCondition changed;
  bool answers = true;
  NodeView view{"one", "", ""};
  int looks = 0;
};

NodeWatch::Settings Quick() {
  NodeWatch::Settings settings;
  settings.interval = absl::Milliseconds(1);
  settings.slow = absl::Milliseconds(50);
  return settings;
}

NodeView Until(NodeWatch& watch, const std::function<bool(const NodeView&)>& holds) {
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  NodeView view = watch.Get();
  while (!holds(view) && !deadline.Expired()) {
    std::this_thread::yield();
    view = watch.Get();
  }
  EXPECT_TRUE(holds(view)) << view.output_id << " " << view.condition;
  return view;
}

TEST(NodeWatchTest, TakesAnAnswerThatComesLate) {
  const auto node = std::make_shared<Node>();
  NodeWatch watch([node](const NodeWatch::At& at) { return node->Look(at); });
  node->Set(false, {"one", "", ""});
  EXPECT_EQ(watch.LookAgain(absl::Milliseconds(1)).output_id, "");
  EXPECT_EQ(watch.Get().output_id, "") << "and does not wait";
  node->Set(true, {"one", "", ""});
  EXPECT_EQ(watch.LookAgain(absl::Seconds(30)).output_id, "one");
  EXPECT_EQ(watch.Get().output_id, "one");
}

TEST(NodeWatchTest, APlaceThatDoesNotAnswerIsACondition) {
  const auto node = std::make_shared<Node>();
  NodeWatch watch([node](const NodeWatch::At& at) { return node->Look(at); }, Quick());
  EXPECT_EQ(watch.LookAgain(absl::Seconds(30)).condition, "");
  node->Set(false, {"", "", ""});
  const NodeView hangs = Until(watch, [](const NodeView& view) { return !view.condition.empty(); });
  EXPECT_EQ(hangs.condition, "the output root /out does not answer: is its file server there?");
  EXPECT_EQ(hangs.output_id, "one") << "the last that was known";
  node->Set(true, {"two", "", ""});
  Until(watch, [](const NodeView& view) { return view.condition.empty() && view.output_id == "two"; });
}

TEST(NodeWatchTest, LooksAgainByItself) {
  const auto node = std::make_shared<Node>();
  NodeWatch watch([node](const NodeWatch::At& at) { return node->Look(at); }, Quick());
  Until(watch, [](const NodeView& view) { return view.output_id == "one"; });
  node->Set(true, {"", "the output root /out is gone", ""});
  Until(watch, [](const NodeView& view) { return view.condition == "the output root /out is gone"; });
  EXPECT_EQ(watch.Get().output_id, "one");
  node->Set(true, {"one", "", ""});
  Until(watch, [](const NodeView& view) { return view.condition.empty(); });
}

}  // namespace
}  // namespace adjoin
