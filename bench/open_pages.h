// Browsers that have the coordinator's page open, without browsers: what coordinator/page/assets asks for, over HTTP,
// for bench/control_plane. A third of them look at the list of jobs, a third at the workers, a third at one job that
// runs.
//
//   OpenPages pages({.port = 8411, .count = 50, .jobs = {"job-1"}});
//   ... wait ...
//   pages.Stop();
//   OpenPages::Times times = pages.TakeTimes();
//
// A job's curves and logs are not asked for: a worker has to read them.
#ifndef ADJOIN_BENCH_OPEN_PAGES_H_
#define ADJOIN_BENCH_OPEN_PAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace adjoin {

class OpenPages {
 public:
  struct Settings {
    int port = 0;  // on 127.0.0.1, plain HTTP
    int count = 1;
    std::vector<std::string> jobs;  // who run; not empty
  };
  // Seconds.
  struct Times {
    std::vector<double> opened;     // from the first request until the view is there: the page, its files, its data
    std::vector<double> refreshed;  // a view's data once more
    int64_t failed = 0;             // requests without an answer of status 200, each tried once
    std::string failure;            // the first of them
  };

  explicit OpenPages(Settings settings);
  ~OpenPages() { Stop(); }
  OpenPages(const OpenPages&) = delete;
  OpenPages& operator=(const OpenPages&) = delete;

  void Stop();
  Times TakeTimes();

 private:
  void Look(int number);
  // The body; nothing: it failed, which is counted.
  std::optional<std::string> Ask(const std::string& path);
  // One after the other.
  bool AskAll(const std::vector<std::string>& paths);
  // What a browser loads before the first view: the page, what it names, and what that imports.
  bool LoadFiles();

  const Settings settings_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Times times_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace adjoin

#endif  // ADJOIN_BENCH_OPEN_PAGES_H_
