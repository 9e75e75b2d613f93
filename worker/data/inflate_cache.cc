#include "worker/data/inflate_cache.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/errno_status.h"
#include "base/logging.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "worker/data/byte_source.h"

namespace adjoin {
namespace {

constexpr char kCopy[] = ".inflated";
constexpr char kTemporary[] = ".tmp";
constexpr absl::Duration kBetweenTries = absl::Milliseconds(20);
// Deflate's limit: a byte of the file inflates to at most 1032.
constexpr int64_t kMaxRatio = 1032;

uint64_t HashOf(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

std::string KeyOf(const struct stat& info, const std::string& name) {
  return absl::StrFormat("%x-%x-%x-%x.%09d-%x.%09d-%016x", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                         info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec, HashOf(name));
}

absl::Status CheckStop(const InflateRequest& request) {
  if (request.stop == nullptr || !request.stop->load()) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat(request.name, ": is not wanted any more"));
}

absl::Status CacheError(const InflateRequest& request, int error) {
  return ErrnoStatus(error, absl::StrCat(request.name, ": the cache of inflated files"));
}

// Takes (F_RDLCK, F_WRLCK) or releases a lock on a byte of a file, without waiting; returns 0 or an errno. The lock
// ends with the process and belongs to the open file description, so threads exclude each other as processes do.
int SetLock(int fd, short type, int64_t byte) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

// True where another process has the lock. Any other error means that the file system has no locks, or no more of them.
bool IsHeld(int error) { return error == EAGAIN || error == EACCES; }

// Locks on bytes of one file in the folder: byte 0 is for the process that makes room, another byte for each copy's
// key. (Processes that have a copy open share the lock on that copy's byte 0.)
class Locks {
 public:
  explicit Locks(int fd) : fd_(fd) {}
  Locks(const Locks&) = delete;
  ~Locks() { close(fd_); }

  static int64_t ByteOf(absl::string_view key) { return 1 + static_cast<int64_t>(HashOf(key) >> 2); }
  // False: another process has the lock. Errors: kUnavailable (the file system has no locks).
  absl::StatusOr<bool> Try(int64_t byte) {
    const int error = SetLock(fd_, F_WRLCK, byte);
    if (error == 0 || IsHeld(error)) return error == 0;
    return absl::UnavailableError(absl::StrCat("its file system refuses locks (", std::strerror(error), ")"));
  }
  void Release(int64_t byte) { SetLock(fd_, F_UNLCK, byte); }

 private:
  const int fd_;
};

// A temporary file, removed unless it was renamed.
class Temporary {
 public:
  Temporary(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Temporary(Temporary&& other) : path_(std::exchange(other.path_, "")), fd_(std::exchange(other.fd_, -1)) {}
  ~Temporary() {
    if (!path_.empty()) unlink(path_.c_str());
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  int Release() {
    path_.clear();
    return std::exchange(fd_, -1);
  }

 private:
  std::string path_;
  int fd_;
};

struct Copy {
  std::string path;
  struct timespec used;
  int64_t bytes;
};

// Returns the copies in the folder, longest unused first. Removes the temporary files of processes that died while they
// inflated.
std::vector<Copy> Copies(const std::string& folder, Locks& locks, absl::string_view own_key, int64_t* bytes) {
  std::vector<Copy> copies;
  *bytes = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    absl::string_view key = entry->d_name;
    const bool temporary = absl::ConsumeSuffix(&key, kTemporary);
    if (!absl::ConsumeSuffix(&key, kCopy)) continue;
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    struct stat info;
    if (stat(path.c_str(), &info) != 0) continue;
    if (temporary && key != own_key && locks.Try(Locks::ByteOf(key)).value_or(false)) {
      unlink(path.c_str());
      locks.Release(Locks::ByteOf(key));
      continue;
    }
    *bytes += info.st_size;
    if (!temporary) copies.push_back({path, info.st_mtim, info.st_size});
  }
  std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) {
    return std::make_pair(a.used.tv_sec, a.used.tv_nsec) < std::make_pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return copies;
}

// Removes a copy that no process has open. False where one has: the disk would keep the copy's blocks, and other
// processes would inflate the file again.
bool RemoveUnused(const Copy& copy) {
  const int fd = open(copy.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  const bool unused = fd >= 0 && SetLock(fd, F_WRLCK, 0) == 0;
  if (unused) unlink(copy.path.c_str());
  if (fd >= 0) close(fd);
  return unused;
}

// Takes the disk's blocks for the file; returns 0 or an errno.
int Allocate(int fd, int64_t bytes) {
  if (bytes == 0 || fallocate(fd, 0, 0, bytes) == 0) return 0;
  if (errno != EOPNOTSUPP) return errno;
  return ftruncate(fd, bytes) == 0 ? 0 : errno;
}

absl::Status NoRoom(const InflateRequest& request, const std::string& why) {
  return absl::ResourceExhaustedError(absl::StrCat(request.name, ": inflated it has ", request.bytes, " bytes, ", why));
}

int64_t FreeBytes(const std::string& folder) {
  struct statvfs disk;
  return statvfs(folder.c_str(), &disk) == 0 ? static_cast<int64_t>(disk.f_bavail * disk.f_frsize) : 0;
}

// Makes a temporary file of the wanted size, and removes copies where there is no room. Under the lock on byte 0.
absl::StatusOr<Temporary> MakeRoom(const InflateRequest& request, const std::string& key, Locks& locks) {
  struct statvfs disk;
  if (statvfs(request.cache_dir.c_str(), &disk) != 0) return CacheError(request, errno);
  const int64_t limit = request.limit > 0
                            ? request.limit
                            : static_cast<int64_t>(0.8 * static_cast<double>(disk.f_blocks * disk.f_frsize));
  if (request.bytes > limit) {
    return NoRoom(request,
                  absl::StrCat("more than the cache of inflated files may have, ", limit,
                               ": give it more (adjoin-worker's --cache-bytes), or inflate the file yourself"));
  }
  int64_t used = 0;
  const std::vector<Copy> copies = Copies(request.cache_dir, locks, key, &used);
  size_t next = 0;
  const auto evict = [&] {
    const Copy& copy = copies[next++];
    if (RemoveUnused(copy)) used -= copy.bytes;
  };
  while (next < copies.size() && used + request.bytes > limit) evict();
  const std::string path = absl::StrCat(request.cache_dir, "/", key, kCopy, kTemporary);
  Temporary file(path, open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.fd() < 0) return CacheError(request, errno);
  int error = Allocate(file.fd(), request.bytes);
  for (; (error == ENOSPC || error == EDQUOT) && next < copies.size(); error = Allocate(file.fd(), request.bytes))
    evict();
  if (error == ENOSPC || error == EDQUOT) {
    if (ftruncate(file.fd(), 0) != 0) return CacheError(request, errno);
    return NoRoom(request, absl::StrCat("and the disk of the cache of inflated files has ",
                                        FreeBytes(request.cache_dir), " free: make room there"));
  }
  if (error != 0) return CacheError(request, error);
  return file;
}

absl::Status WriteAll(const InflateRequest& request, int fd, const char* from, int64_t bytes) {
  while (bytes > 0) {
    const ssize_t done = write(fd, from, static_cast<size_t>(bytes));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && (errno == ENOSPC || errno == EDQUOT)) {
      return NoRoom(request, "and the disk of the cache of inflated files is full: make room there");
    }
    if (done < 0) return CacheError(request, errno);
    from += done;
    bytes -= done;
  }
  return absl::OkStatus();
}

bool Unchanged(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Inflates `source` to `fd`, at most request.bytes.
absl::Status Inflate(const InflateRequest& request, const OpenFile& source, int fd) {
  struct stat before, after;
  if (fstat(source.fd(), &before) != 0) return ErrnoStatus(errno, request.name);
  // Opens the same file again, even if another one has its name by now.
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> stream,
                          ByteSource::Open(absl::StrCat("/proc/self/fd/", source.fd()), request.name));
  constexpr int64_t kPiece = 1 << 20;
  const auto buffer = std::make_unique<char[]>(kPiece);
  while (stream->position() < request.bytes) {
    ADJOIN_RETURN_IF_ERROR(CheckStop(request));
    const int64_t piece = std::min(kPiece, request.bytes - stream->position());
    ADJOIN_ASSIGN_OR_RETURN(const int64_t got, stream->Read(buffer.get(), piece));
    if (got < piece) {
      return absl::DataLossError(absl::StrCat(request.name, ": truncated: inflated it has ", stream->position(),
                                              " bytes; its header names ", request.bytes));
    }
    ADJOIN_RETURN_IF_ERROR(WriteAll(request, fd, buffer.get(), got));
  }
  // Asking for one more also reads the gzip stream's end and checksum.
  ADJOIN_ASSIGN_OR_RETURN(const int64_t more, stream->Read(buffer.get(), 1));
  if (more > 0) {
    return absl::DataLossError(absl::StrCat(request.name, ": trailing bytes: inflated it has more than the ",
                                            request.bytes, " bytes that its header names"));
  }
  if (fstat(source.fd(), &after) != 0) return ErrnoStatus(errno, request.name);
  if (!Unchanged(before, after)) {
    return absl::UnavailableError(absl::StrCat(request.name, ": was changed while it was inflated"));
  }
  return absl::OkStatus();
}

std::string TemporaryFolder() {
  const char* const named = std::getenv("TMPDIR");
  return named != nullptr && named[0] != '\0' ? named : "/tmp";
}

// Makes a copy without a name in `folder`, for this process only.
absl::StatusOr<OpenFile> PrivateCopy(const InflateRequest& request, const OpenFile& source, const std::string& folder) {
  std::string path = folder + "/adjoin-inflated-XXXXXX";
  OpenFile file(mkostemp(path.data(), O_CLOEXEC), request.name);
  if (file.fd() < 0) return ErrnoStatus(errno, absl::StrCat(request.name, ": an inflated copy in ", folder));
  unlink(path.c_str());
  const int error = Allocate(file.fd(), request.bytes);
  if (error == ENOSPC || error == EDQUOT) {
    return NoRoom(request, absl::StrCat("and the disk of ", folder, " has ", FreeBytes(folder),
                                        " free: make room there, or name another folder by ",
                                        request.cache_dir.empty() ? "TMPDIR" : "adjoin-worker's --cache-dir"));
  }
  if (error != 0) return ErrnoStatus(error, absl::StrCat(request.name, ": an inflated copy in ", folder));
  ADJOIN_RETURN_IF_ERROR(Inflate(request, source, file.fd()));
  return file;
}

// Opens the copy, if it is there. No process removes it while it is open.
std::optional<OpenFile> Find(const InflateRequest& request, const std::string& path) {
  OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW), request.name);
  struct stat info;
  // A copy that is being removed is locked, or has no name any more.
  if (file.fd() < 0 || IsHeld(SetLock(file.fd(), F_RDLCK, 0))) return std::nullopt;
  if (fstat(file.fd(), &info) != 0 || info.st_nlink == 0 || info.st_size != request.bytes) return std::nullopt;
  // Notes that the copy was used now. Where this fails the copy is removed earlier, which costs only time.
  (void)futimens(file.fd(), nullptr);
  return file;
}

absl::Status Wait(const InflateRequest& request, const std::string& for_what) {
  ADJOIN_RETURN_IF_ERROR(CheckStop(request));
  if (request.deadline.Expired()) {
    return absl::DeadlineExceededError(
        absl::StrCat(request.name, ": waited too long for another process that ", for_what));
  }
  absl::SleepFor(kBetweenTries);
  return absl::OkStatus();
}

absl::StatusOr<OpenFile> WithoutLocks(const InflateRequest& request, const OpenFile& source, const absl::Status& why) {
  LogWarning(absl::StrCat(request.name, ": inflated for this process only: the cache of inflated files, ",
                          request.cache_dir, ": ", std::string(why.message()),
                          "; adjoin-worker's --cache-dir may name a folder elsewhere"));
  return PrivateCopy(request, source, request.cache_dir);
}

// Under the lock on the key's byte.
absl::StatusOr<OpenFile> MakeCopy(const InflateRequest& request, const OpenFile& source, const std::string& key,
                                  const std::string& path, Locks& locks) {
  for (;;) {
    const absl::StatusOr<bool> alone = locks.Try(0);
    if (!alone.ok()) return WithoutLocks(request, source, alone.status());
    if (*alone) break;
    ADJOIN_RETURN_IF_ERROR(Wait(request, "makes room in the cache of inflated files"));
  }
  absl::StatusOr<Temporary> room = MakeRoom(request, key, locks);
  locks.Release(0);
  if (!room.ok()) return room.status();
  ADJOIN_RETURN_IF_ERROR(Inflate(request, source, room->fd()));
  if (fsync(room->fd()) != 0) return CacheError(request, errno);
  // The copy has no name yet, so no other process can have a lock on it.
  (void)SetLock(room->fd(), F_RDLCK, 0);
  if (std::rename(room->path().c_str(), path.c_str()) != 0) return CacheError(request, errno);
  OpenFile file(room->Release(), request.name);
  if (const int error = SyncFolder(request.cache_dir); error != 0) return CacheError(request, error);
  return file;
}

}  // namespace

absl::StatusOr<OpenFile> InflatedCopy(const InflateRequest& request) {
  ADJOIN_ASSIGN_OR_RETURN(const OpenFile source, OpenFile::Open(request.path, request.name));
  struct stat info;
  if (fstat(source.fd(), &info) != 0) return ErrnoStatus(errno, request.name);
  if (request.bytes / kMaxRatio > info.st_size) {
    return absl::DataLossError(absl::StrCat(request.name, ": truncated: its header names ", request.bytes,
                                            " bytes, which no gzip file of ", info.st_size, " bytes holds"));
  }
  if (request.cache_dir.empty()) return PrivateCopy(request, source, TemporaryFolder());
  struct stat folder;
  if (stat(request.cache_dir.c_str(), &folder) != 0) {
    ADJOIN_RETURN_IF_ERROR(MakeFolders(request.cache_dir));
    chmod(request.cache_dir.c_str(), 0700);
  }
  const int lock_fd = open(absl::StrCat(request.cache_dir, "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd < 0) return CacheError(request, errno);
  Locks locks(lock_fd);
  const std::string key = KeyOf(info, request.name);
  const std::string path = absl::StrCat(request.cache_dir, "/", key, kCopy);
  for (;;) {
    if (std::optional<OpenFile> copy = Find(request, path)) return std::move(*copy);
    const absl::StatusOr<bool> alone = locks.Try(Locks::ByteOf(key));
    if (!alone.ok()) return WithoutLocks(request, source, alone.status());
    if (*alone) break;
    ADJOIN_RETURN_IF_ERROR(Wait(request, "inflates it"));
  }
  // The process that had the lock before may have made the copy just now.
  if (std::optional<OpenFile> copy = Find(request, path)) return std::move(*copy);
  return MakeCopy(request, source, key, path, locks);
}

}  // namespace adjoin
