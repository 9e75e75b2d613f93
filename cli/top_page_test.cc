#include "cli/top_page.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adjoin {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

JobSummary& AddJob(ListJobsResponse& list, const std::string& id, JobState state) {
  JobSummary& job = *list.add_job();
  job.set_job_id(id);
  job.set_name("net");
  job.set_state(state);
  job.set_ranks(2);
  return job;
}

ListJobsResponse Cluster() {
  ListJobsResponse list;
  AddJob(list, "job-3", SUCCEEDED);
  JobSummary& waits = AddJob(list, "job-2", PENDING);
  waits.set_queue_position(1);
  waits.set_reason("needs 2 slots, 0 of 4 free");
  JobSummary& runs = AddJob(list, "job-1", RUNNING);
  runs.mutable_progress()->set_step(66);
  runs.mutable_progress()->set_total_steps(157);
  runs.mutable_progress()->set_loss(0.25);
  runs.mutable_progress()->set_steps_per_second(58.2);
  runs.mutable_progress()->set_seconds_left(80);
  WorkerSummary& worker = *list.add_worker();
  worker.set_name("worker-0");
  worker.set_slots(4);
  worker.set_state("draining");
  return list;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_EQ(lines.back(), "") << "every line has its end";
  lines.pop_back();
  return lines;
}

// The ids in the order in which they are shown.
std::vector<std::string> Ids(TopPage& page) {
  std::vector<std::string> ids;
  for (const std::string& line : Lines(page.Text(0, 0))) {
    const size_t at = line.find("job-");
    if (at < 8) ids.push_back(line.substr(at, line.find(' ', at) - at));  // after the mark
  }
  return ids;
}

TEST(TopPageTest, ShowsWhatRunsFirstAndWhatOthersWaitFor) {
  TopPage page({.coordinator = "host:1", .color = false, .marks = false});
  page.Set(Cluster());
  const std::string text = page.Text(0, 0);
  EXPECT_THAT(text, StartsWith("adjoin top host:1: 1 running, 1 pending, 1 succeeded; 1 worker, 0 of 4 slots free, "
                               "1 draining; by state\n"));
  EXPECT_THAT(text, ContainsRegex("job-1 +net +running +2 +66/157 +42% +1 min 20 s +0.25 +58.2\n"
                                  "job-2 +net +pending \\(1\\) +2 +needs 2 slots, 0 of 4 free\n"
                                  "job-3 +net +succeeded +2\n"));
  EXPECT_THAT(text, ContainsRegex("worker-0 .*draining"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(TopPageTest, FitsTheTerminalAndKeepsTheChosenJobInSight) {
  ListJobsResponse list = Cluster();
  for (int i = 10; i < 60; ++i) AddJob(list, absl::StrCat("job-", i), SUCCEEDED);
  for (int i = 1; i < 20; ++i) *list.add_worker() = list.worker(0);
  TopPage page({.coordinator = "", .color = false, .marks = true});
  page.Set(list);
  for (const size_t height : {1, 2, 3, 5, 8, 12, 24, 100}) {
    for (const size_t width : {1, 10, 40, 200}) {
      EXPECT_THAT(Lines(page.Text(width, height)), SizeIs(Le(height))) << width << " x " << height;
    }
  }
  for (int presses = 0; presses < 60; ++presses) {
    const std::string text = page.Text(100, 24);
    ASSERT_THAT(text, ContainsRegex("\x1b\\[7m> job-[^\n]*\x1b\\[0m\n")) << presses;
    ASSERT_THAT(text, HasSubstr("workers\n")) << "not all of them have room";
    page.Press(Key::kDown);
  }
  EXPECT_THAT(page.Text(100, 24), HasSubstr("> job-59"));
  page.Press(Key::kHome);
  EXPECT_THAT(page.Text(100, 24), HasSubstr("> job-1 "));
  page.Press(Key::kPageDown);
  EXPECT_THAT(page.Text(100, 24), Not(HasSubstr("> job-1 ")));
}

TEST(TopPageTest, TheChosenJobStaysChosenWhenTheOrderChanges) {
  TopPage page({.coordinator = "", .color = false, .marks = true});
  page.Set(Cluster());
  EXPECT_THAT(Ids(page), ElementsAre("job-1", "job-2", "job-3"));
  page.Press(Key::kDown);
  EXPECT_THAT(page.Text(100, 24), HasSubstr("> job-2"));
  page.Press(Key::kReverse);
  EXPECT_THAT(Ids(page), ElementsAre("job-3", "job-2", "job-1"));
  EXPECT_THAT(page.Text(100, 24), HasSubstr("> job-2"));
  page.Press(Key::kReverse);
  page.Press(Key::kSort);
  EXPECT_THAT(page.Text(100, 24), HasSubstr("; by job\n"));
  ListJobsResponse later = Cluster();
  later.mutable_job(1)->set_state(CANCELLED);
  page.Set(later);
  EXPECT_THAT(page.Text(100, 24), HasSubstr("> job-2"));
  ListJobsResponse gone;
  page.Set(gone);
  EXPECT_THAT(page.Text(100, 24), HasSubstr("no jobs"));
  EXPECT_TRUE(page.Press(Key::kEnter)) << "there is none to look at";
  EXPECT_EQ(page.looked_at(), "");
}

TEST(TopPageTest, OneJobsDetailsAreScrolled) {
  TopPage page({.coordinator = "", .color = true, .marks = true});
  page.Set(Cluster());
  page.Press(Key::kEnter);
  EXPECT_EQ(page.looked_at(), "job-1");
  EXPECT_THAT(page.Text(80, 10), HasSubstr("asks the coordinator"));
  std::string details = "job    job-1\nstate  running\n";
  for (int i = 1; i <= 50; ++i) absl::StrAppend(&details, "line ", i, "\n");
  page.SetDetails("job-9", "another job's");
  EXPECT_THAT(page.Text(80, 10), HasSubstr("asks the coordinator")) << "of a job that is not looked at";
  page.SetDetails("job-1", details);
  EXPECT_THAT(page.Text(80, 10), HasSubstr("state  \x1b[32mrunning\x1b[0m\nline 1\n"));
  EXPECT_THAT(Lines(page.Text(80, 10)), SizeIs(10));
  page.Press(Key::kEnd);
  EXPECT_THAT(page.Text(80, 10), HasSubstr("line 50\n"));
  page.Press(Key::kUp);
  EXPECT_THAT(page.Text(80, 10), Not(HasSubstr("line 50\n"))) << "one line at once, from the end";
  page.Press(Key::kBack);
  EXPECT_EQ(page.looked_at(), "");
  EXPECT_FALSE(page.Press(Key::kQuit));
}

TEST(TopPageTest, WhatIsNotKnownIsEmpty) {
  ListJobsResponse list;
  AddJob(list, "job-1", RUNNING).mutable_progress()->set_total_steps(157);
  TopPage page({.coordinator = "", .color = false, .marks = false});
  page.Set(list);
  EXPECT_THAT(page.Text(0, 0), ContainsRegex("\njob-1 +net +running +2 +0/157 +0%\n"));
}

TEST(TopPageTest, HostileTextIsWrittenOut) {
  ListJobsResponse list = Cluster();
  list.mutable_job(1)->set_reason("\x1b[2J\x07 a\nb\xff");
  list.mutable_job(2)->set_name("\x1b]0;title\x07");
  list.mutable_worker(0)->set_state("\x1b[31mready");
  list.set_notice("\x1b[31m");
  TopPage page({.coordinator = "\x1b[5m", .color = false, .marks = false});
  page.Set(list);
  page.SetNotice("\x1b[41m");
  const std::string text = page.Text(0, 0);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("\\x1b[2J\\x07 a\\nb\\xff"));
}

TEST(TopPageTest, StatesAreColouredAndTheChosenLineStaysMarked) {
  TopPage page({.coordinator = "", .color = true, .marks = true});
  page.Set(Cluster());
  const std::string text = page.Text(120, 24);
  EXPECT_THAT(text, HasSubstr("\x1b[33mpending\x1b[0m (1)"));
  EXPECT_THAT(text, HasSubstr("\x1b[32mrunning\x1b[0m\x1b[7m")) << "the rest of the marked line is marked, too";
  EXPECT_THAT(text, HasSubstr("\x1b[33mdraining\x1b[0m"));
}

}  // namespace
}  // namespace adjoin
