// A file that tells others whether the daemon is connected: a container's runtime can look for it.
//
//   ReadyFile ready("/run/adjoin/ready");
//   ADJOIN_RETURN_IF_ERROR(ready.Check());    // what an earlier daemon has left is gone
//   ready.Set();                              // connected
//   ready.Clear();                            // not any more
//
// Used by one thread at a time. The destructor clears.
#ifndef ADJOIN_WORKER_DAEMON_READY_FILE_H_
#define ADJOIN_WORKER_DAEMON_READY_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace adjoin {

class ReadyFile {
 public:
  // `path`: absolute; empty: no file, and nothing is done.
  explicit ReadyFile(std::string path) : path_(std::move(path)) {}
  ~ReadyFile() { Clear(); }
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

  // Clears, and tries whether the file can be made. Errors: kUnavailable.
  absl::Status Check();
  // What fails is logged: the daemon is of use without it.
  void Set();
  void Clear();

 private:
  const std::string path_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_READY_FILE_H_
