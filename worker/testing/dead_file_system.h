// A file system that takes requests and never answers them, as one whose server is gone: a process that touches it
// waits in the kernel, and does not even die of SIGKILL.
//
//   DeadFileSystem dead(data_root + "/dead");     // a folder that exists
//   if (!dead.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
//   dead.End();                                   // who waits gets an error
//
// It is mounted for the calling thread, and for the threads and processes that it starts afterwards: make it on the
// test's main thread, before any other. The test itself must not touch the folder.
#ifndef ADJOIN_WORKER_TESTING_DEAD_FILE_SYSTEM_H_
#define ADJOIN_WORKER_TESTING_DEAD_FILE_SYSTEM_H_

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace adjoin {

class DeadFileSystem {
 public:
  static constexpr char kNeeds[] = "needs root, /dev/fuse and mount namespaces";

  explicit DeadFileSystem(std::string folder) : folder_(std::move(folder)) {
    fuse_ = UniqueFd(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    end_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
    if (fuse_.get() < 0 || end_.get() < 0 || unshare(CLONE_NEWNS) != 0) return;
    // In a chroot, "/" is no mount point: then nothing may be shared with other namespaces already.
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 && AnyShared()) return;
    const std::string options =
        "fd=" + std::to_string(fuse_.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    mounted_ = mount("dead", folder_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
    if (mounted_) reader_ = std::thread([this] { TakeRequests(); });
  }
  ~DeadFileSystem() { End(); }
  DeadFileSystem(const DeadFileSystem&) = delete;
  DeadFileSystem& operator=(const DeadFileSystem&) = delete;

  bool ok() const { return mounted_; }
  void End() {
    if (reader_.joinable()) {
      eventfd_write(end_.get(), 1);
      reader_.join();
    }
    fuse_.reset();  // the kernel ends all that waits
    if (std::exchange(mounted_, false)) umount2(folder_.c_str(), MNT_DETACH);
  }

 private:
  static bool AnyShared() {
    std::ifstream mounts("/proc/self/mountinfo");
    return std::string(std::istreambuf_iterator<char>(mounts), {}).find(" shared:") != std::string::npos;
  }

  // Greets the kernel, which asks nothing before that, and reads what it asks then.
  void TakeRequests() {
    std::vector<char> request(1 << 20);
    while (true) {
      pollfd fds[] = {{fuse_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
      if (poll(fds, 2, -1) < 0) continue;
      if (fds[1].revents != 0) return;
      const ssize_t got = read(fuse_.get(), request.data(), request.size());
      if (got < 0 && errno != EINTR && errno != EAGAIN && errno != ENOENT) return;  // it is not mounted any more
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) continue;
      fuse_in_header in = {};
      memcpy(&in, request.data(), sizeof(in));
      if (in.opcode != FUSE_INIT) continue;
      fuse_init_in asked = {};
      memcpy(&asked, request.data() + sizeof(in), std::min(sizeof(asked), static_cast<size_t>(got) - sizeof(in)));
      fuse_out_header out = {};
      fuse_init_out init = {};
      out.unique = in.unique;
      out.len = sizeof(out) + sizeof(init);
      init.major = FUSE_KERNEL_VERSION;
      init.minor = std::min<uint32_t>(FUSE_KERNEL_MINOR_VERSION, asked.minor);
      init.max_write = 4096;
      iovec parts[] = {{&out, sizeof(out)}, {&init, sizeof(init)}};
      if (writev(fuse_.get(), parts, 2) < 0) return;
    }
  }

  const std::string folder_;
  UniqueFd fuse_, end_;
  bool mounted_ = false;
  std::thread reader_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TESTING_DEAD_FILE_SYSTEM_H_
