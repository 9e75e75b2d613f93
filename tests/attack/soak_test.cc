// Thousands of trivial jobs through one coordinator and one daemon: what they use does not grow with the number of
// jobs. ADJOIN_SOAK_JOBS: how many.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "tests/attack/attacked_cluster.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

int64_t BytesBelow(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code gone;
  for (auto it = fs::recursive_directory_iterator(folder, gone); !gone && it != fs::end(it); it.increment(gone)) {
    std::error_code error;
    const auto size = it->is_regular_file(error) ? it->file_size(error) : 0;
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

struct Figures {
  std::map<std::string, ProcessUse> use;
  int64_t disk = 0;  // of the states of coordinator and daemon
};

TEST(SoakTest, NothingGrowsWithTheNumberOfJobs) {
  const char* wanted = getenv("ADJOIN_SOAK_JOBS");
  const int jobs = wanted == nullptr ? 10000 : atoi(wanted);
  const int tenth = std::max(jobs / 10, 1);
  LocalClusterOptions options;
  options.rank_binary = "worker/testing/fake-rank";
  options.coordinator_flags = {"--keep-jobs", absl::StrCat(std::min(200, tenth))};
  auto started = LocalCluster::Start(1, 8, options);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  std::deque<std::string> running;
  Figures first, middle;
  const absl::Time begin = absl::Now();
  for (int done = 0; done < jobs;) {
    while (running.size() < 16 && done + static_cast<int>(running.size()) < jobs) {
      const int folder = (done + static_cast<int>(running.size())) % 64;
      auto job = cluster.Submit(FakeJob("attempt", 1, absl::StrCat("output_dir: \"soak/", folder, "\"")));
      ASSERT_TRUE(job.ok()) << job.status();
      running.push_back(*job);
    }
    auto end = cluster.WaitFor(running.front(), Deadline::After(absl::Seconds(120)));
    ASSERT_TRUE(end.ok()) << end.status();
    ASSERT_EQ(end->state(), SUCCEEDED) << end->reason();
    running.pop_front();
    if (++done % tenth != 0 && done < jobs) continue;
    Figures now{UseOfPrograms(cluster),
                BytesBelow(cluster.folder() + "/coordinator") + BytesBelow(cluster.folder() + "/worker-0")};
    std::cout << done << " jobs, " << absl::ToDoubleSeconds(absl::Now() - begin) << " s, states of " << (now.disk >> 10)
              << " KiB";
    for (const auto& [name, use] : now.use) {
      std::cout << "; " << name << " " << (use.memory_bytes >> 10) << " KiB, " << use.descriptors << " descriptors, "
                << use.threads << " threads";
    }
    std::cout << std::endl;
    if (done == tenth) first = now;
    if (done == 5 * tenth) middle = now;
    if (done < jobs) continue;
    for (const auto& [name, use] : now.use) {
      // The allocators settle at first.
      EXPECT_LE(use.memory_bytes, first.use[name].memory_bytes * 5 / 4 + (16 << 20)) << name;
      if (jobs >= 5000) {
        EXPECT_LE(use.memory_bytes, middle.use[name].memory_bytes + (3 << 20) + int64_t{512} * (jobs / 2)) << name;
      }
      EXPECT_LE(use.descriptors, first.use[name].descriptors + 20) << name;
      EXPECT_LE(use.threads, first.use[name].threads + 20) << name;
    }
    EXPECT_LE(now.disk, first.disk * 3 / 2 + (8 << 20));
  }
}

}  // namespace
}  // namespace adjoin
