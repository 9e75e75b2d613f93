// How many files and connections this process may have open.
//
//   RaiseFileLimit();   // first thing in main
#ifndef ADJOIN_BASE_FILE_LIMIT_H_
#define ADJOIN_BASE_FILE_LIMIT_H_

#include <sys/resource.h>

namespace adjoin {

// To what the system allows. The usual 1024 are there for programs that use select(), and fewer than a cluster needs;
// a gRPC server that has run out of them once accepts no connection ever again.
inline void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_FILE_LIMIT_H_
