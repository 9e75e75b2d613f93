#include "worker/daemon/node_look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/content_hash.h"
#include "base/status_macros.h"
#include "worker/daemon/output_id.h"

namespace adjoin {
namespace {

constexpr uint64_t kLittleSpace = 64 << 10;  // bytes: less than a job's smallest files

std::string Gone(const std::string& place, const std::string& flag) {
  return absl::StrCat(place, " is gone: make it again, or restart the daemon with another ", flag);
}

bool IsGone(int error) { return error == ENOENT || error == ENOTDIR; }

// False for a file whose content may be another one.
bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

// "" where the file cannot be read.
std::string ChecksumOf(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return "";
  ContentHash hash;
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t bytes = read(file.get(), buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return "";
    if (bytes == 0) return hash.Hex();
    hash.Add(buffer.data(), bytes);
  }
}

// "" where tiny files can still be written below `path`.
std::string FullDisk(const std::string& place, const std::string& path, bool other_user) {
  struct statvfs disk = {};
  if (statvfs(path.c_str(), &disk) != 0) return absl::StrCat(place, " cannot be looked at: ", strerror(errno));
  if (disk.f_blocks == 0) return "";  // it does not tell
  const bool privileged = geteuid() == 0 && !other_user;
  const uint64_t blocks = privileged ? disk.f_bfree : disk.f_bavail;
  if (blocks * disk.f_frsize < kLittleSpace) return absl::StrCat("no space is left for ", place);
  const uint64_t files = privileged ? disk.f_ffree : disk.f_favail;
  return disk.f_files > 0 && files == 0 ? absl::StrCat("no file can be made any more for ", place) : "";
}

}  // namespace

NodeLook::NodeLook(NodePlaces places)
    : places_(std::move(places)), state_(open(places_.state_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

std::string NodeLook::LookAtProgram(NodeView& seen) {
  const std::string place = absl::StrCat("the program ", places_.rank_binary);
  struct stat info = {};
  if (faccessat(AT_FDCWD, places_.rank_binary.c_str(), X_OK, AT_EACCESS) != 0 ||
      stat(places_.rank_binary.c_str(), &info) != 0) {
    if (!IsGone(errno)) return absl::StrCat(place, " cannot be run: ", strerror(errno));
    return absl::StrCat(place, " is gone: install it again, or restart the daemon with another --rank-binary");
  }
  {
    absl::MutexLock lock(&mutex_);
    seen.rank_program = program_;
    if (IsSameFile(info, program_file_)) return "";
  }
  const std::string found = ChecksumOf(places_.rank_binary);
  if (found.empty()) return "";  // it may be run all the same
  absl::MutexLock lock(&mutex_);
  if (program_.empty()) program_ = found;
  seen.rank_program = program_;
  if (found != program_) {
    return absl::StrCat(place, " is another one than at the daemon's start, as after an upgrade: restart the daemon");
  }
  program_file_ = info;
  return "";
}

std::string NodeLook::LookAtState() const {
  const std::string place = absl::StrCat("the state folder ", places_.state_dir);
  struct stat info = {};
  if (stat(places_.state_dir.c_str(), &info) != 0 && !IsGone(errno))
    return absl::StrCat(place, " cannot be looked at: ", strerror(errno));
  struct stat own = {};
  if (fstat(state_.get(), &own) != 0) return absl::StrCat(place, " could not be opened: restart the daemon");
  if (info.st_dev != own.st_dev || info.st_ino != own.st_ino)
    return absl::StrCat(place, " is gone", info.st_ino == 0 ? "" : " (another one is there now)",
                        ": restart the daemon");
  if (!places_.socket.empty() && (lstat(places_.socket.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)))
    return absl::StrCat("the ranks' socket ", places_.socket, " is gone: restart the daemon");
  return FullDisk(place, places_.state_dir, /*other_user=*/false);
}

std::string NodeLook::LookAtData() const {
  const std::string place = absl::StrCat("the data root ", places_.data_root);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(places_.data_root.c_str()), closedir);
  errno = folder == nullptr ? errno : 0;
  if (folder != nullptr) readdir(folder.get());
  if (errno == 0 || errno == EACCES) return "";  // files in it may be readable all the same, or ranks may read them
  return IsGone(errno) ? Gone(place, "--data-root") : absl::StrCat(place, " cannot be read: ", strerror(errno));
}

absl::StatusOr<std::string> NodeLook::IdOfOutput() {
  std::string known;
  dev_t device = 0;
  {
    absl::MutexLock lock(&mutex_);
    known = output_id_;
    device = output_device_;
  }
  struct stat info = {};
  if (stat(places_.output_root.c_str(), &info) != 0) return absl::UnavailableError(strerror(errno));
  // A folder that was made again has no id, and gets a new one. Where a file system is not mounted any more, the
  // folder below it is not the one that jobs write to.
  if (!known.empty() && info.st_dev != device) {
    ADJOIN_ASSIGN_OR_RETURN(const std::string there, ReadOutputId(places_.output_root));
    if (there != known) {
      return absl::FailedPreconditionError(
          absl::StrCat("another file system is at the output root ", places_.output_root,
                       " than at the daemon's start: mount that one again, or restart the daemon"));
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(std::string id, OutputId(places_.output_root));
  absl::MutexLock lock(&mutex_);
  output_id_ = id;
  output_device_ = info.st_dev;
  return id;
}

std::string NodeLook::LookAtOutput(NodeView& seen) {
  const std::string place = absl::StrCat("the output root ", places_.output_root);
  struct stat info = {};
  if (stat(places_.output_root.c_str(), &info) != 0) {
    return IsGone(errno) ? Gone(place, "--output-root") : absl::StrCat(place, " cannot be read: ", strerror(errno));
  }
  if (!S_ISDIR(info.st_mode)) return absl::StrCat(place, " is no folder any more");
  absl::StatusOr<std::string> found = IdOfOutput();
  if (absl::IsFailedPrecondition(found.status())) return std::string(found.status().message());
  if (found.ok()) {
    seen.output_id = *std::move(found);
  } else {
    seen.id_problem = std::string(found.status().message());
  }
  // Ranks may write below a root in which the daemon may not.
  if (faccessat(AT_FDCWD, places_.output_root.c_str(), W_OK | X_OK, AT_EACCESS) != 0 && errno != EACCES)
    return absl::StrCat(place, " cannot be written: ", strerror(errno));
  return FullDisk(place, places_.output_root, places_.other_rank_user);
}

absl::Status NodeLook::LookAtAll(
    const std::function<absl::Status(const std::string& what, const std::string& path)>& before, NodeView& seen) {
  const auto look = [&](const std::string& what, const std::string& path, auto wrong) -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(before(what, path));
    const std::string condition = wrong();
    if (!condition.empty()) absl::StrAppend(&seen.condition, seen.condition.empty() ? "" : "; ", condition);
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(look("the program", places_.rank_binary, [&] { return LookAtProgram(seen); }));
  ADJOIN_RETURN_IF_ERROR(look("the state folder", places_.state_dir, [&] { return LookAtState(); }));
  ADJOIN_RETURN_IF_ERROR(look("the data root", places_.data_root, [&] { return LookAtData(); }));
  return look("the output root", places_.output_root, [&] { return LookAtOutput(seen); });
}

NodeView NodeLook::Look(const std::function<void(const std::string& place)>& at) {
  NodeView seen;
  const auto tell = [&at](const std::string& what, const std::string& path) {
    if (at) at(absl::StrCat(what, " ", path));
    return absl::OkStatus();
  };
  LookAtAll(tell, seen).IgnoreError();  // there is none
  return seen;
}

absl::StatusOr<NodeView> NodeLook::LookInto(const std::function<absl::Status(const std::string& path)>& enter) {
  NodeView seen;
  ADJOIN_RETURN_IF_ERROR(LookAtAll([&](const std::string&, const std::string& path) { return enter(path); }, seen));
  return seen;
}

}  // namespace adjoin
