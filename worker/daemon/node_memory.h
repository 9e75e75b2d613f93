// How much memory a node has for ranks, where its daemon was not told.
//
//   hello.set_memory_bytes(MemoryForRanks());
#ifndef ADJOIN_WORKER_DAEMON_NODE_MEMORY_H_
#define ADJOIN_WORKER_DAEMON_NODE_MEMORY_H_

#include <cstdint>
#include <string>

namespace adjoin {

// The least of the control groups that `proc_cgroup` names, the text of /proc/self/cgroup, and of those around them,
// below the folder `root` (/sys/fs/cgroup; both versions of control groups). 0: they limit nothing.
uint64_t CgroupMemoryLimit(const std::string& proc_cgroup, const std::string& root);

// Nine tenths of the machine's memory, or of what this process's control group may use where that is less: the rest is
// for the daemon, the system and its file cache. 0: not known.
uint64_t MemoryForRanks();

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_NODE_MEMORY_H_
