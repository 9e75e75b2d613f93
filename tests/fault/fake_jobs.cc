#include "tests/fault/fake_jobs.h"

#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

// "JOB EPOCH RANK WHAT PID BOOTTIME_NS", as fake_rank.cc writes it.
struct RunLine {
  std::string job;
  uint64_t epoch = 0;
  int rank = 0;
  std::string what;
  int64_t pid = 0;
  int64_t time = 0;
};

std::vector<RunLine> ReadRuns(const std::string& output_root) {
  std::istringstream file(ReadFile(output_root + "/runs.log"));
  std::vector<RunLine> lines;
  RunLine line;
  while (file >> line.job >> line.epoch >> line.rank >> line.what >> line.pid >> line.time) lines.push_back(line);
  return lines;
}

}  // namespace

std::string FakeJob(const std::string& name, int ranks, const std::string& more) {
  return absl::StrCat("name: \"", name, "\" kind: TRAIN ranks: ", ranks, R"( seed: 1
    layout { name: "batch" partition: [)",
                      ranks, R"(, 1, 1, 1] }
    layer { name: "flat" input: "image" x: "batch" flatten { arg: 1 } }
    layer { name: "fc" linear { out_features: 10 } }
    loss { kind: "cross_entropy" input: "fc" target: "label" }
    dataset { name: "train"
      field { name: "image" idx { path: "mnist/test-images.idx.gz" } shape: [1, 28, 28] }
      field { name: "label" idx { path: "mnist/test-labels.idx.gz" } dtype: "int64" } }
    train { dataset: "train" batch: 64 steps: 10 optimizer { sgd { lr: 0.01 } } }
)",
                      more, "\n");
}

std::vector<std::string> ImpatientCoordinator(int dead_after_seconds) {
  return {"--heartbeat-seconds",
          "0.2",
          "--suspect-seconds",
          "0.7",
          "--worker-timeout-seconds",
          absl::StrCat(dead_after_seconds),
          "--reattach-seconds",
          absl::StrCat(dead_after_seconds + 2),
          "--lease-seconds",
          absl::StrCat(dead_after_seconds + 4),
          "--restarts-without-progress",
          "1000000"};
}

std::map<std::string, std::set<uint64_t>> AttemptsThatRan(const std::string& output_root) {
  std::map<std::string, std::set<uint64_t>> attempts;
  for (const RunLine& line : ReadRuns(output_root)) attempts[line.job].insert(line.epoch);
  return attempts;
}

std::vector<std::string> TwiceAtOnce(const std::string& output_root) {
  const std::vector<RunLine> lines = ReadRuns(output_root);
  std::vector<std::string> found;
  for (const RunLine& line : lines) {
    const std::string rank = absl::StrCat(line.job, " epoch ", line.epoch, " rank ", line.rank);
    if (line.what == "overlap") found.push_back(absl::StrCat(rank, " started while process ", line.pid, " lived"));
    if (line.what != "end") continue;
    // Ranks that said when they ended, after a later attempt had started.
    for (const RunLine& other : lines) {
      if (other.what == "start" && other.job == line.job && other.epoch > line.epoch && other.time < line.time) {
        found.push_back(absl::StrCat(rank, " ended after epoch ", other.epoch, " had started"));
      }
    }
  }
  return found;
}

}  // namespace adjoin
