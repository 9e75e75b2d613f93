// What a start finds in files that were damaged, cut, put back or mixed, compared with what was there before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/store/store.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

std::string Bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class StoreHistoryTest : public ::testing::Test {
 protected:
  StoreHistoryTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string Path(const std::string& image) const { return absl::StrCat(folder_, "/", image, "/adjoin.db"); }
  static std::unique_ptr<Store> Open(const std::string& path, bool accept_loss = false) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    StoreOptions options;
    options.accept_loss = accept_loss;
    auto store = Store::Open(path, options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // What a process that is killed now leaves.
  void Copy(const std::string& from, const std::string& to) const {
    std::filesystem::remove_all(absl::StrCat(folder_, "/", to));
    std::filesystem::copy(absl::StrCat(folder_, "/", from), absl::StrCat(folder_, "/", to));
  }
  // A job with a plan and an event, or another state of one.
  StoreChanges Change(std::mt19937_64& random) {
    StoreChanges changes;
    const uint64_t number = random() % 3 != 0 || jobs_ == 0 ? ++jobs_ : 1 + random() % jobs_;
    if (number == jobs_) {
      changes.submissions.emplace_back().set_job(number);
      changes.plans.emplace_back().set_job(number);
      changes.plans.back().set_plan(std::string(random() % 6000, static_cast<char>(random())));
    }
    changes.jobs.emplace_back().set_number(number);
    changes.jobs.back().set_reason(std::string(random() % 500, 'r'));
    changes.attempts.emplace_back().set_job(number);
    changes.attempts.back().set_epoch(++epochs_);
    changes.last_epoch = epochs_;
    changes.events.emplace_back().set_sequence(++events_);
    changes.events.back().set_job_id(absl::StrCat("job-", number));
    changes.events.back().set_text(std::string(random() % 300, 'e'));
    return changes;
  }
  void Commit(Store& store, std::mt19937_64& random, int commits) {
    for (int i = 0; i < commits; ++i) ASSERT_EQ(store.Apply(Change(random)), absl::OkStatus());
  }
  // Everything that a store tells, as text.
  static std::string Content(Store& store) {
    const auto state = store.Load();
    if (!state.ok()) return state.status().ToString();
    std::string text =
        absl::StrCat(state->last_job, " ", state->last_epoch, " ", state->last_event, " ", state->store_id, "\n");
    for (const StoredJob& job : state->jobs) {
      absl::StrAppend(&text, job.SerializeAsString(), state->submissions.at(job.number()).SerializeAsString(),
                      state->attempts.at(job.number()).SerializeAsString(), store.Plan(job.number()).value_or("none"));
      const absl::StatusOr<std::vector<JobEvent>> events = store.Events(absl::StrCat("job-", job.number()), 0, 1000);
      EXPECT_TRUE(events.ok()) << events.status();
      if (!events.ok()) continue;
      for (const JobEvent& event : *events) {
        absl::StrAppend(&text, event.SerializeAsString());
      }
    }
    return text;
  }
  // A start on `image` tells all that `content` has, or is refused and changes nothing.
  bool IsRefused(const std::string& image, const std::string& content) {
    const std::string path = Path(image);
    const bool had_log = std::filesystem::exists(path + "-wal");
    const std::string database = Bytes(path), log = Bytes(path + "-wal");
    auto store = Store::Open(path);
    if (store.ok()) {
      EXPECT_EQ(Content(**store) == content, true) << "an older or damaged state, without a word";
      return false;
    }
    EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
    EXPECT_THAT(std::string(store.status().message()), HasSubstr("--accept-loss"));
    EXPECT_EQ(Bytes(path) == database, true) << "the evidence was changed";
    EXPECT_EQ(Bytes(path + "-wal") == log, true) << "the evidence was changed";
    EXPECT_EQ(std::filesystem::exists(path + "-wal"), had_log);
    return true;
  }
  static std::string WhyRefused(const std::string& path) {
    auto store = Store::Open(path);
    return store.ok() ? "" : std::string(store.status().message());
  }
  static void Put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  const std::string folder_ = ::testing::TempDir() + "/store-history";
  uint64_t jobs_ = 0, epochs_ = 0, events_ = 0;
};

TEST_F(StoreHistoryTest, ADamagedLogIsNeverAnOlderState) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  auto store = Open(Path("live"));
  Commit(*store, random, 12);
  const std::string content = Content(*store);
  Copy("live", "killed");
  const std::string log = Bytes(Path("killed") + "-wal");
  ASSERT_GT(log.size(), 10000);
  int refused = 0, rounds = 160;
  for (int round = 0; round < rounds; ++round) {
    Copy("killed", "damaged");
    std::string damaged = log;
    const size_t at = random() % log.size();
    switch (round % 4) {
      case 0: damaged[at] ^= static_cast<char>(1 << random() % 8); break;
      case 1:
        for (size_t i = at; i < std::min(at + 4096, log.size()); ++i) damaged[i] = static_cast<char>(random());
        break;
      case 2: damaged.resize(at); break;
      default:
        damaged.replace(at, std::min<size_t>(4096, log.size() - at), std::min<size_t>(4096, log.size() - at), '\0');
    }
    Put(Path("damaged") + "-wal", damaged);
    refused += IsRefused("damaged", content) ? 1 : 0;
    if (HasFailure()) FAIL() << "round " << round << " of seed " << seed;
  }
  EXPECT_GT(refused, rounds * 3 / 4);
  Copy("killed", "damaged");
  std::filesystem::remove(Path("damaged") + "-wal");
  EXPECT_THAT(WhyRefused(Path("damaged")), HasSubstr("12 commits are missing"));
  Copy("killed", "damaged");
  EXPECT_FALSE(IsRefused("damaged", content)) << "a crash alone loses nothing";
}

TEST_F(StoreHistoryTest, ADamagedDatabaseIsFoundOrTellsTheTruth) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  std::string content, older;
  {
    auto store = Open(Path("live"));
    Commit(*store, random, 30);
  }
  older = Bytes(Path("live"));
  {
    auto store = Open(Path("live"));
    Commit(*store, random, 30);
    content = Content(*store);
  }
  EXPECT_FALSE(std::filesystem::exists(Path("live") + "-wal")) << "an orderly end leaves one file";
  const std::string database = Bytes(Path("live"));
  int refused = 0, rounds = 150;
  for (int round = 0; round < rounds; ++round) {
    Copy("live", "damaged");
    std::string damaged = database;
    const size_t page = random() % (database.size() / 4096) * 4096;
    switch (round % 3) {
      case 0: damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8); break;
      case 1:
        for (size_t i = page; i < page + 4096; ++i) damaged[i] = static_cast<char>(random());
        break;
      default:  // a page as it was some time ago: healthy, and wrong
        if (page + 4096 <= older.size()) damaged.replace(page, 4096, older, page, 4096);
    }
    Put(Path("damaged"), damaged);
    auto store = Store::Open(Path("damaged"));
    if (!store.ok()) {
      ++refused;
      EXPECT_TRUE(absl::IsDataLoss(store.status()) || absl::IsFailedPrecondition(store.status()) ||
                  absl::IsUnavailable(store.status()))
          << store.status();
      EXPECT_EQ(Bytes(Path("damaged")) == damaged, true);
    } else {
      EXPECT_EQ(Content(**store) == content, true);
    }
    if (HasFailure()) FAIL() << "round " << round << " of seed " << seed;
  }
  EXPECT_GT(refused, rounds / 3);
}

TEST_F(StoreHistoryTest, AnOlderCopyIsRefusedAndAcceptedOnce) {
  std::mt19937_64 random(7);
  Commit(*Open(Path("live")), random, 4);
  NodeChanges nodes;
  for (const char* id : {"a", "b"}) nodes.tokens.emplace_back().mutable_summary()->set_id(id);
  nodes.certificates.emplace_back().set_serial("77");
  ASSERT_EQ(Open(Path("live"))->ApplyNodes(nodes), absl::OkStatus());
  Copy("live", "backup");
  Commit(*Open(Path("live")), random, 9);
  const StoredState last = *Open(Path("live"))->Load();
  std::filesystem::copy_file(Path("backup"), Path("live"), std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(WhyRefused(Path("live")), HasSubstr("9 commits are missing: the last one in the file is 6 of "));
  StoredState anew;
  {
    auto store = Open(Path("live"), /*accept_loss=*/true);
    anew = *store->Load();
    EXPECT_THAT(anew.lost, HasSubstr("9 commits are missing"));
    EXPECT_NE(anew.store_id, last.store_id);
    EXPECT_GT(anew.last_job, last.last_job);
    EXPECT_GT(anew.last_epoch, last.last_epoch);
    EXPECT_GT(anew.last_event, last.last_event);
    EXPECT_EQ(anew.jobs.size(), Open(Path("backup"))->Load()->jobs.size());
    EXPECT_EQ(Open(Path("backup"))->Nodes()->tokens.size(), 2);
    EXPECT_EQ(store->Nodes()->tokens.size(), 0) << "their uses may be missing";
    EXPECT_EQ(store->Nodes()->certificates.size(), 1);
  }
  const StoredState again = *Open(Path("live"), /*accept_loss=*/true)->Load();
  EXPECT_EQ(again.lost, "") << "it is accepted once";
  EXPECT_EQ(Open(Path("live"))->Nodes()->tokens.size(), 0) << "also where the program ended right afterwards";
  EXPECT_EQ(again.store_id, anew.store_id);
}

// What people do: adjoin.db is put back, and its log stays.
TEST_F(StoreHistoryTest, AnOlderDatabaseBesideANewerLogIsNoState) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    std::filesystem::remove_all(folder_);
    jobs_ = epochs_ = events_ = 0;
    Commit(*Open(Path("live")), random, 20);
    Copy("live", "backup");
    Commit(*Open(Path("live")), random, 20);
    auto store = Open(Path("live"));
    Commit(*store, random, 3);
    Copy("live", "mixed");
    std::filesystem::copy_file(Path("backup"), Path("mixed"), std::filesystem::copy_options::overwrite_existing);
    EXPECT_TRUE(IsRefused("mixed", Content(*store))) << "seed " << seed;
  }
}

TEST_F(StoreHistoryTest, TheJournalIsMissedAndThatOfAnotherStoreIsNoticed) {
  std::mt19937_64 random(7);
  Commit(*Open(Path("live")), random, 3);
  Commit(*Open(Path("other")), random, 3);
  const std::string journal = folder_ + "/live/adjoin.journal";
  const std::string own = Bytes(journal);
  std::filesystem::remove(journal);
  EXPECT_THAT(WhyRefused(Path("live")), HasSubstr("its journal is missing"));
  Put(journal, Bytes(folder_ + "/other/adjoin.journal"));
  EXPECT_THAT(WhyRefused(Path("live")), HasSubstr("another store's"));
  Put(journal, std::string(8192, 'x'));
  EXPECT_THAT(WhyRefused(Path("live")), HasSubstr("is damaged"));
  Put(journal, own);
  EXPECT_EQ(WhyRefused(Path("live")), "");
}

TEST_F(StoreHistoryTest, ADatabaseThatIsGoneIsNotMadeAnew) {
  std::mt19937_64 random(7);
  Commit(*Open(Path("live")), random, 3);
  std::filesystem::remove(Path("live"));
  EXPECT_THAT(WhyRefused(Path("live")), HasSubstr("the database is missing"));
  EXPECT_FALSE(std::filesystem::exists(Path("live")));
  const StoredState anew = *Open(Path("live"), /*accept_loss=*/true)->Load();
  EXPECT_TRUE(anew.jobs.empty());
  EXPECT_GT(anew.last_job, jobs_);
  EXPECT_GT(anew.last_epoch, epochs_);
}

TEST_F(StoreHistoryTest, ACrashBetweenTheCommitAndItsJournalIsNoLoss) {
  std::mt19937_64 random(7);
  auto store = Open(Path("live"));
  Commit(*store, random, 4);
  Copy("live", "before");
  Commit(*store, random, 1);
  Copy("live", "killed");
  Put(folder_ + "/killed/adjoin.journal", Bytes(folder_ + "/before/adjoin.journal"));
  EXPECT_FALSE(IsRefused("killed", Content(*store)));
}

TEST_F(StoreHistoryTest, FilesOfOthersAreRefusedAndLeftAlone) {
  std::filesystem::create_directories(folder_ + "/x/adjoin.db");
  EXPECT_THAT(WhyRefused(Path("x")), HasSubstr("it is no file"));
  EXPECT_THAT(WhyRefused(folder_ + "/missing/adjoin.db"), HasSubstr("cannot be opened for reading and writing"));
  std::filesystem::create_directories(folder_ + "/y");
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(Path("y").c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "CREATE TABLE cookies (name TEXT); PRAGMA user_version = 3", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  const std::string cookies = Bytes(Path("y"));
  EXPECT_THAT(WhyRefused(Path("y")), HasSubstr("a database of another program"));
  EXPECT_EQ(Bytes(Path("y")) == cookies, true);
  Put(Path("y"), "a letter to somebody, of more than a few bytes: " + std::string(4096, 'x'));
  EXPECT_TRUE(IsRefused("y", ""));
}

TEST_F(StoreHistoryTest, AFileThatIsDamagedWhileItIsUsedEndsItsUse) {
  std::mt19937_64 random(7);
  {
    auto store = Open(Path("live"));
    for (int i = 0; i < 20; ++i) {  // more than SQLite keeps in memory
      StoreChanges changes;
      changes.plans.emplace_back().set_job(++jobs_);
      changes.plans.back().set_plan(std::string(400000, 'p'));
      ASSERT_EQ(store->Apply(changes), absl::OkStatus());
    }
  }
  absl::Status told;
  StoreOptions options;
  options.on_data_loss = [&](const absl::Status& why) { told = why; };
  auto store = Store::Open(Path("live"), options);
  ASSERT_TRUE(store.ok()) << store.status();
  std::fstream file(Path("live"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(0);
  file << std::string(std::filesystem::file_size(Path("live")), 'x');
  file.close();
  for (uint64_t job = 1; job <= jobs_ && told.ok(); ++job) (*store)->Plan(job).status().IgnoreError();
  for (int i = 0; i < 20 && told.ok(); ++i) (*store)->Apply(Change(random)).IgnoreError();
  EXPECT_EQ(told.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ((*store)->Apply(Change(random)).code(), absl::StatusCode::kDataLoss) << "also when it would succeed";
}

TEST_F(StoreHistoryTest, AnEventThatIsDamagedWhileTheStoreIsUsedIsNotShown) {
  constexpr int kOthers = 3000;
  const std::string text = "the event that will be damaged";
  {
    auto store = Open(Path("live"));
    StoreChanges changes;
    JobEvent& event = changes.events.emplace_back();
    event.set_job_id("job-1");
    event.set_sequence(++events_);
    event.set_kind("started");
    event.set_text(text);
    ASSERT_EQ(store->Apply(changes), absl::OkStatus());
    StoreChanges others;
    for (int i = 0; i < kOthers; ++i) {
      JobEvent& other = others.events.emplace_back();
      other.set_job_id("job-2");
      other.set_sequence(++events_);
      other.set_text(std::string(3000, 't'));
    }
    ASSERT_EQ(store->Apply(others), absl::OkStatus());
  }
  absl::Status told;
  StoreOptions options;
  options.on_data_loss = [&](const absl::Status& why) { told = why; };
  auto store = Store::Open(Path("live"), options);
  ASSERT_TRUE(store.ok()) << store.status();
  // SQLite keeps none of the event's pages after so many others.
  ASSERT_EQ((*store)->Events("job-2", 0, kOthers)->size(), kOthers);
  const size_t place = Bytes(Path("live")).find(text);
  ASSERT_NE(place, std::string::npos);
  std::fstream file(Path("live"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place));
  file << "another text, of the same size";
  file.close();
  EXPECT_EQ((*store)->Events("job-1", 0, 10).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(told.code(), absl::StatusCode::kDataLoss);
}

// Whatever is damaged, put back and accepted: no number of a job, an attempt or an event is given twice.
TEST_F(StoreHistoryTest, NumbersAreNeverGivenTwice) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  uint64_t job = 0, epoch = 0, event = 0;  // the highest that were acknowledged
  int accepted = 0;
  std::vector<std::string> backups;
  Open(Path("live"));
  for (int round = 0; round < 60; ++round) {
    {
      auto store = Store::Open(Path("live"));
      if (!store.ok()) {
        ++accepted;
        store = Store::Open(Path("live"), {.accept_loss = true, .largest_row = 1 << 20, .on_data_loss = nullptr});
        ASSERT_TRUE(store.ok()) << store.status();
      }
      const StoredState state = *(*store)->Load();
      ASSERT_GE(state.last_job, job) << "round " << round << " of seed " << seed;
      ASSERT_GE(state.last_epoch, epoch);
      ASSERT_GE(state.last_event, event);
      jobs_ = state.last_job;
      epochs_ = state.last_epoch;
      events_ = state.last_event;
      for (uint64_t commits = random() % 5; commits > 0; --commits) {
        ASSERT_EQ((*store)->Apply(Change(random)), absl::OkStatus());
      }
      job = jobs_;
      epoch = epochs_;
      event = events_;
      Copy("live", "killed");
    }
    if (random() % 2 == 0) Copy("killed", "live");
    if (random() % 3 == 0) {
      backups.push_back(absl::StrCat("backup-", round));
      Copy("live", backups.back());
    }
    const std::string log = Path("live") + "-wal";
    switch (random() % 5) {
      case 0: std::filesystem::remove(log); break;
      case 1:
        if (!backups.empty()) {
          std::filesystem::remove(log);
          std::filesystem::copy_file(Path(backups[random() % backups.size()]), Path("live"),
                                     std::filesystem::copy_options::overwrite_existing);
        }
        break;
      case 2:
        if (std::filesystem::exists(log)) std::filesystem::resize_file(log, std::filesystem::file_size(log) / 2);
        break;
      default: break;
    }
  }
  EXPECT_GT(accepted, 3);
}

}  // namespace
}  // namespace adjoin
