#include "worker/daemon/worker_outbox.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

WorkerMessage Update(uint32_t rank, uint64_t step, const std::string& transport = "") {
  WorkerMessage message;
  *message.mutable_header() = MakeHeader(3);
  RankUpdate& update = *message.mutable_rank_update();
  update.set_job_id("job-1");
  update.set_rank(rank);
  if (step > 0) update.mutable_progress()->set_step(step);
  update.set_transport(transport);
  return message;
}

WorkerMessage Log(const std::string& job, const std::string& text) {
  WorkerMessage message;
  *message.mutable_header() = MakeHeader(3);
  message.mutable_log()->set_job_id(job);
  message.mutable_log()->add_line()->set_text(text);
  return message;
}

std::optional<WorkerMessage> TakeNow(WorkerOutbox& outbox) { return outbox.Take(Deadline::Clock::now()); }

WorkerMessage Ended(uint32_t rank) {
  WorkerMessage message;
  *message.mutable_header() = MakeHeader(3);
  message.mutable_rank_ended()->set_job_id("job-1");
  message.mutable_rank_ended()->set_rank(rank);
  return message;
}

std::vector<std::string> TextsOf(WorkerOutbox& outbox) {
  std::vector<std::string> texts;
  while (auto message = TakeNow(outbox)) {
    for (const LogLine& line : message->log().line()) texts.push_back(line.text());
  }
  return texts;
}

TEST(WorkerOutboxTest, ARanksProgressReplacesWhatWaitsOfIt) {
  WorkerOutbox outbox({});
  EXPECT_TRUE(outbox.Add(Update(0, 0, "0: tcp")));
  for (uint64_t step = 1; step <= 100000; ++step) ASSERT_TRUE(outbox.Add(Update(step % 2, step)));
  EXPECT_TRUE(outbox.Add(Ended(0)));
  const auto other = TakeNow(outbox), first = TakeNow(outbox), second = TakeNow(outbox), third = TakeNow(outbox);
  ASSERT_TRUE(other.has_value() && first.has_value() && second.has_value() && third.has_value());
  EXPECT_EQ(other->rank_update().progress().step(), 99999u);
  EXPECT_EQ(first->rank_update().transport(), "0: tcp");
  EXPECT_EQ(second->rank_update().progress().step(), 100000u);
  EXPECT_TRUE(third->has_rank_ended()) << "after the last progress of its rank";
  EXPECT_TRUE(outbox.empty());
  // What was taken, or dropped, is not merged into any more.
  EXPECT_TRUE(outbox.Add(Update(0, 6)));
  EXPECT_TRUE(outbox.Add(Log("job-1", "a line")));
  outbox.Clear();
  EXPECT_TRUE(outbox.empty());
  EXPECT_TRUE(outbox.Add(Update(0, 7)));
  EXPECT_EQ(TakeNow(outbox)->rank_update().progress().step(), 7u);
}

TEST(WorkerOutboxTest, ProgressGoesOutAsOftenAsThePaceSays) {
  using Time = Deadline::Clock::time_point;
  constexpr auto kBetween = std::chrono::seconds(5);
  WorkerOutbox outbox({});
  outbox.SetPace(absl::FromChrono(kBetween));
  EXPECT_EQ(outbox.DueAt(), Time::max());
  const Time begin = Deadline::Clock::now();
  EXPECT_TRUE(outbox.Add(Update(0, 1)));
  EXPECT_TRUE(outbox.Add(Update(1, 1)));
  EXPECT_LE(outbox.DueAt(), begin) << "the first of each rank";
  EXPECT_TRUE(outbox.Take(begin).has_value() && outbox.Take(begin).has_value());
  EXPECT_TRUE(outbox.Add(Update(0, 2)));
  EXPECT_LE(outbox.DueAt(), begin) << "nothing was held before";
  EXPECT_EQ(outbox.Take(begin)->rank_update().progress().step(), 2u);

  for (uint64_t step = 3; step <= 9; ++step) EXPECT_TRUE(outbox.Add(Update(step % 2, step)));
  EXPECT_EQ(outbox.DueAt(), begin + kBetween);
  EXPECT_FALSE(outbox.empty());
  EXPECT_FALSE(outbox.Take(begin + kBetween / 2).has_value());
  EXPECT_TRUE(outbox.Add(Log("job-1", "a line")));
  EXPECT_EQ(outbox.DueAt(), Time::min()) << "other messages do not wait";
  EXPECT_TRUE(outbox.Take(begin + kBetween / 2)->has_log());
  EXPECT_FALSE(outbox.Take(begin + kBetween / 2).has_value());
  EXPECT_EQ(outbox.Take(begin + kBetween)->rank_update().progress().step(), 8u);
  EXPECT_EQ(outbox.Take(begin + kBetween)->rank_update().progress().step(), 9u);
  EXPECT_FALSE(outbox.Take(begin + kBetween).has_value());

  EXPECT_TRUE(outbox.Add(Update(0, 10)));
  EXPECT_EQ(outbox.DueAt(), begin + 2 * kBetween);
  outbox.SetPace(absl::Seconds(1));
  EXPECT_EQ(outbox.DueAt(), begin + kBetween + std::chrono::seconds(1)) << "from now on";
}

// The coordinator counts the steps of the training, and sends a job back to the nodes that have its checkpoint.
TEST(WorkerOutboxTest, WhatTellsMoreThanStepsDoesNotWaitAndReplacesNothing) {
  WorkerOutbox outbox({});
  outbox.SetPace(absl::Hours(1));
  const Deadline::Clock::time_point begin = Deadline::Clock::now();
  std::vector<void (*)(JobProgress&)> news = {
      [](JobProgress& progress) { progress.set_phase("evaluating"); },
      [](JobProgress& progress) { progress.set_checkpoint_step(8); },
      [](JobProgress& progress) { progress.set_resumed_step(3); },
      [](JobProgress& progress) { progress.mutable_trace()->set_first_step(4); },
      [](JobProgress& progress) { progress.mutable_trace()->set_file("trace-4-5.pftrace"); },
  };
  WorkerMessage message = Update(0, 2);
  for (const WorkerMessage& first : {Update(0, 1), message}) {
    EXPECT_TRUE(outbox.Add(first));
    EXPECT_TRUE(outbox.Take(begin).has_value()) << "from now on they are held";
  }
  uint64_t step = 2;
  for (const auto& change : news) {
    message.mutable_rank_update()->mutable_progress()->set_step(++step);
    EXPECT_TRUE(outbox.Add(message));
    EXPECT_FALSE(outbox.Take(begin).has_value());
    message.mutable_rank_update()->mutable_progress()->set_step(++step);
    EXPECT_TRUE(outbox.Add(message));
    change(*message.mutable_rank_update()->mutable_progress());
    message.mutable_rank_update()->mutable_progress()->set_step(++step);
    EXPECT_TRUE(outbox.Add(message));
    EXPECT_EQ(outbox.Take(begin)->rank_update().progress().step(), step - 1) << "what was held";
    EXPECT_EQ(outbox.Take(begin)->rank_update().progress().step(), step);
    EXPECT_FALSE(outbox.Take(begin).has_value());
  }
  // The same where nobody has taken the last one yet.
  message.mutable_rank_update()->mutable_progress()->set_phase("training");
  EXPECT_TRUE(outbox.Add(message));
  message.mutable_rank_update()->mutable_progress()->set_phase("finished");
  message.mutable_rank_update()->mutable_progress()->set_step(++step);
  EXPECT_TRUE(outbox.Add(message));
  message.mutable_rank_update()->mutable_progress()->set_step(++step);
  EXPECT_TRUE(outbox.Add(message)) << "only further steps: into the one that waits";
  EXPECT_EQ(outbox.Take(begin)->rank_update().progress().phase(), "training");
  EXPECT_EQ(outbox.Take(begin)->rank_update().progress().step(), step);
  EXPECT_TRUE(outbox.empty());
}

TEST(WorkerOutboxTest, ARanksEndBringsItsProgressWithIt) {
  WorkerOutbox outbox({});
  outbox.SetPace(absl::Hours(1));
  const Deadline::Clock::time_point begin = Deadline::Clock::now();
  for (uint64_t step : {1, 2}) {
    EXPECT_TRUE(outbox.Add(Update(0, step)));
    EXPECT_TRUE(outbox.Add(Update(1, step)));
    EXPECT_TRUE(outbox.Take(begin).has_value() && outbox.Take(begin).has_value()) << "from now on they are held";
  }
  EXPECT_TRUE(outbox.Add(Update(0, 7)));
  EXPECT_TRUE(outbox.Add(Update(1, 7)));
  EXPECT_TRUE(outbox.Add(Ended(1)));
  EXPECT_EQ(outbox.Take(begin)->rank_update().rank(), 1u);
  EXPECT_TRUE(outbox.Take(begin)->has_rank_ended());
  EXPECT_FALSE(outbox.Take(begin).has_value()) << "rank 0 goes on";
  outbox.KeepLogsOnly();
  EXPECT_TRUE(outbox.empty()) << "the next hello has it";
}

TEST(WorkerOutboxTest, WhatWaitsHasALimitAndTheNextHelloReportsIt) {
  WorkerOutbox outbox({.log_messages = 10, .bytes = 100000});
  EXPECT_TRUE(outbox.Add(Log("job-1", "a line")));
  WorkerMessage ended;
  ended.mutable_rank_ended()->set_error(std::string(4000, 'e'));
  int added = 0;
  while (added < 1000 && outbox.Add(ended)) ++added;
  EXPECT_GT(added, 20);
  EXPECT_LT(added, 26);
  EXPECT_EQ(TextsOf(outbox), std::vector<std::string>({"a line"}));
}

TEST(WorkerOutboxTest, LostLinesAreCountedWhereTheyWere) {
  WorkerOutbox outbox({.log_messages = 3, .bytes = 100000});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(outbox.Add(Log("job-1", absl::StrCat("one ", i))));
    EXPECT_TRUE(outbox.Add(Log("job-2", absl::StrCat("two ", i))));
  }
  EXPECT_EQ(TextsOf(outbox),
            std::vector<std::string>({"[here 1 lines were lost, which the coordinator did not take in time]", "two 1",
                                      "[here 2 lines were lost, which the coordinator did not take in time]", "one 2",
                                      "two 2"}));
}

TEST(WorkerOutboxTest, LinesHaveALimitOfBytes) {
  WorkerOutbox outbox({.log_messages = 100, .bytes = 10000});
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(outbox.Add(Log(absl::StrCat("job-", i % 2), std::string(900, 'x'))));
  }
  size_t bytes = 0;
  while (auto message = TakeNow(outbox)) bytes += message->ByteSizeLong();
  EXPECT_GT(bytes, 8000u);
  EXPECT_LT(bytes, 11000u);
}

}  // namespace
}  // namespace adjoin
