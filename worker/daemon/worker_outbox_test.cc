#include "worker/daemon/worker_outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

std::vector<std::string> TextsOf(WorkerOutbox& outbox) {
  std::vector<std::string> texts;
  while (auto message = outbox.Take()) {
    for (const LogLine& line : message->log().line()) texts.push_back(line.text());
  }
  return texts;
}

TEST(WorkerOutboxTest, ARanksProgressReplacesWhatWaitsOfIt) {
  WorkerOutbox outbox({});
  EXPECT_TRUE(outbox.Add(Update(0, 0, "0: tcp")));
  for (uint64_t step = 1; step <= 100000; ++step) ASSERT_TRUE(outbox.Add(Update(step % 2, step)));
  WorkerMessage ended;
  ended.mutable_rank_ended()->set_rank(0);
  EXPECT_TRUE(outbox.Add(ended));
  auto first = outbox.Take(), second = outbox.Take();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->rank_update().progress().step(), 100000u);
  EXPECT_EQ(first->rank_update().transport(), "0: tcp");
  EXPECT_EQ(second->rank_update().progress().step(), 99999u);
  EXPECT_TRUE(outbox.Take()->has_rank_ended());
  EXPECT_TRUE(outbox.empty());
  // What was taken, or dropped, is not merged into any more.
  EXPECT_TRUE(outbox.Add(Update(0, 6)));
  EXPECT_TRUE(outbox.Add(Log("job-1", "a line")));
  outbox.Clear();
  EXPECT_TRUE(outbox.empty());
  EXPECT_TRUE(outbox.Add(Update(0, 7)));
  EXPECT_EQ(outbox.Take()->rank_update().progress().step(), 7u);
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
  while (auto message = outbox.Take()) bytes += message->ByteSizeLong();
  EXPECT_GT(bytes, 8000u);
  EXPECT_LT(bytes, 11000u);
}

}  // namespace
}  // namespace adjoin
