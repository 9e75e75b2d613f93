// A file system that takes requests and never answers them, as one whose server is gone: a process that touches it
// waits in the kernel, and does not even die of SIGKILL. With a file in it, it answers until that is read so far.
//
//   DeadFileSystem dead(data_root + "/dead");     // a folder that exists
//   if (!dead.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
//   dead.End();                                   // who waits gets an error
//
//   DeadFileSystem stops(data_root + "/dead", StoppingFile{.name = "model", .bytes = 3 << 20, .answered = 1 << 20});
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
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace adjoin {

// The only file of a file system, at its top, of zeros. A read that goes beyond the first `answered` bytes gets no
// answer.
struct StoppingFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t answered = 0;
};

class DeadFileSystem {
 public:
  static constexpr char kNeeds[] = "needs root, /dev/fuse and mount namespaces";

  explicit DeadFileSystem(std::string folder, std::optional<StoppingFile> file = std::nullopt)
      : folder_(std::move(folder)), file_(std::move(file)) {
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
  static constexpr uint64_t kFileNode = FUSE_ROOT_ID + 1;
  static constexpr uint64_t kValidSeconds = 3600;

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
      const auto in = Read<fuse_in_header>(request.data(), static_cast<size_t>(got));
      const char* rest = request.data() + sizeof(in);
      const size_t size = static_cast<size_t>(got) - sizeof(in);
      if (in.opcode == FUSE_INIT) {
        if (!Greet(in, rest, size)) return;
      } else if (file_.has_value()) {
        Answer(in, rest, size);
      }
    }
  }

  // What is missing at the end is zero.
  template <typename T>
  static T Read(const char* from, size_t size) {
    T result = {};
    memcpy(&result, from, std::min(sizeof(result), size));
    return result;
  }

  bool Send(const fuse_in_header& in, int error, const void* data, size_t size) {
    fuse_out_header out = {};
    out.unique = in.unique;
    out.error = -error;
    out.len = static_cast<uint32_t>(sizeof(out) + size);
    iovec parts[] = {{&out, sizeof(out)}, {const_cast<void*>(data), size}};
    return writev(fuse_.get(), parts, 2) >= 0;
  }

  bool Greet(const fuse_in_header& in, const char* rest, size_t size) {
    fuse_init_out init = {};
    init.major = FUSE_KERNEL_VERSION;
    init.minor = std::min<uint32_t>(FUSE_KERNEL_MINOR_VERSION, Read<fuse_init_in>(rest, size).minor);
    init.max_write = 4096;
    return Send(in, 0, &init, sizeof(init));
  }

  fuse_attr AttributesOf(uint64_t node) const {
    fuse_attr attributes = {};
    attributes.ino = node;
    attributes.size = node == kFileNode ? file_->bytes : 0;
    attributes.mode = node == kFileNode ? S_IFREG | 0644 : S_IFDIR | 0755;
    attributes.nlink = 1;
    attributes.blksize = 4096;
    return attributes;
  }

  // An answer that cannot be sent is not missed: the process that asked is gone.
  void Answer(const fuse_in_header& in, const char* rest, size_t size) {
    switch (in.opcode) {
      case FUSE_LOOKUP: {
        fuse_entry_out entry = {};
        entry.nodeid = kFileNode;
        entry.entry_valid = entry.attr_valid = kValidSeconds;
        entry.attr = AttributesOf(kFileNode);
        const bool is_there = std::string(rest, strnlen(rest, size)) == file_->name;
        Send(in, is_there ? 0 : ENOENT, &entry, is_there ? sizeof(entry) : 0);
        break;
      }
      case FUSE_GETATTR: {
        fuse_attr_out out = {};
        out.attr_valid = kValidSeconds;
        out.attr = AttributesOf(in.nodeid);
        Send(in, 0, &out, sizeof(out));
        break;
      }
      case FUSE_OPEN: {
        fuse_open_out out = {};
        out.open_flags = FOPEN_DIRECT_IO;  // nothing is read ahead
        Send(in, 0, &out, sizeof(out));
        break;
      }
      case FUSE_READ: {
        const auto asked = Read<fuse_read_in>(rest, size);
        if (asked.offset + asked.size > file_->answered) break;
        const std::vector<char> zeros(asked.size);
        Send(in, 0, zeros.data(), zeros.size());
        break;
      }
      case FUSE_FLUSH:
      case FUSE_RELEASE: Send(in, 0, nullptr, 0); break;
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT: break;  // they have no answer
      default: Send(in, ENOSYS, nullptr, 0);
    }
  }

  const std::string folder_;
  const std::optional<StoppingFile> file_;
  UniqueFd fuse_, end_;
  bool mounted_ = false;
  std::thread reader_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TESTING_DEAD_FILE_SYSTEM_H_
