#include "worker/checkpoint/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "worker/data/path_rules.h"

namespace adjoin {
namespace {

constexpr int64_t kMostAtOnce = 1 << 20;

// The folder that a path is in, open, and the name in it.
struct FolderAndName {
  HeldPath folder;
  std::string name;
};

absl::StatusOr<FolderAndName> Split(const std::string& root, const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    ADJOIN_ASSIGN_OR_RETURN(HeldPath folder, HoldFolder(root, ""));
    return FolderAndName{std::move(folder), path};
  }
  ADJOIN_ASSIGN_OR_RETURN(HeldPath folder, HoldBelow(root, path.substr(0, slash)));
  return FolderAndName{std::move(folder), path.substr(slash + 1)};
}

class DiskFile : public FileSystem::File {
 public:
  DiskFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~DiskFile() override { close(fd_); }

  absl::Status Write(int64_t offset, const void* data, int64_t bytes) override {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t done = pwrite(fd_, from, static_cast<size_t>(std::min(bytes, kMostAtOnce)), offset);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return ErrnoStatus(errno, path_);
      from += done;
      offset += done;
      bytes -= done;
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override { return fsync(fd_) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path_); }

 private:
  const std::string path_;
  const int fd_;
};

class DiskSource : public FileSystem::Source {
 public:
  DiskSource(std::string path, int fd, int64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  ~DiskSource() override { close(fd_); }

  int64_t size() const override { return size_; }

  absl::Status Read(int64_t offset, void* data, int64_t bytes) const override {
    char* to = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t done = pread(fd_, to, static_cast<size_t>(std::min(bytes, kMostAtOnce)), offset);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return ErrnoStatus(errno, path_);
      if (done == 0) return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset, ", too early"));
      to += done;
      offset += done;
      bytes -= done;
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const int fd_;
  const int64_t size_;
};

}  // namespace

absl::Status DiskFiles::MakeFolder(const std::string& path) { return HoldFolder(root_, path).status(); }

absl::StatusOr<std::unique_ptr<FileSystem::File>> DiskFiles::Create(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const FolderAndName found, Split(root_, path));
  const int fd =
      openat(found.folder.fd(), found.name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return ErrnoStatus(errno, path);
  return std::unique_ptr<File>(new DiskFile(path, fd));
}

absl::Status DiskFiles::Rename(const std::string& from, const std::string& to) {
  ADJOIN_ASSIGN_OR_RETURN(const FolderAndName old, Split(root_, from));
  ADJOIN_ASSIGN_OR_RETURN(const FolderAndName found, Split(root_, to));
  if (renameat(old.folder.fd(), old.name.c_str(), found.folder.fd(), found.name.c_str()) != 0) {
    return ErrnoStatus(errno, to);
  }
  return absl::OkStatus();
}

absl::Status DiskFiles::SyncFolder(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath folder, path.empty() ? HoldFolder(root_, "") : HoldBelow(root_, path));
  const int error = adjoin::SyncFolder(folder.path());
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, path);
}

absl::Status DiskFiles::Remove(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const FolderAndName found, Split(root_, path));
  if (unlinkat(found.folder.fd(), found.name.c_str(), 0) == 0) return absl::OkStatus();
  if (errno != EISDIR) return ErrnoStatus(errno, path);
  return unlinkat(found.folder.fd(), found.name.c_str(), AT_REMOVEDIR) == 0 ? absl::OkStatus()
                                                                            : ErrnoStatus(errno, path);
}

absl::StatusOr<std::vector<std::string>> DiskFiles::List(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath folder, path.empty() ? HoldFolder(root_, "") : HoldBelow(root_, path));
  DIR* stream = opendir(folder.path().c_str());
  if (stream == nullptr) return ErrnoStatus(errno, path);
  absl::Cleanup close_stream = [stream] { closedir(stream); };
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return ErrnoStatus(errno, path);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::unique_ptr<FileSystem::Source>> DiskFiles::Open(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const FolderAndName found, Split(root_, path));
  const int fd = openat(found.folder.fd(), found.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, path);
  struct stat info;
  const int error = fstat(fd, &info) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(info.st_mode)) return std::unique_ptr<Source>(new DiskSource(path, fd, info.st_size));
  close(fd);
  return error == 0 ? absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file")) : ErrnoStatus(error, path);
}

std::string PathOf(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : absl::StrCat(folder, "/", name);
}

absl::Status WriteDurably(FileSystem& files, const std::string& folder, const std::string& name,
                          const std::string& text) {
  const std::string path = PathOf(folder, name);
  const std::string temporary = absl::StrCat(path, ".new");
  {
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::File> file, files.Create(temporary));
    ADJOIN_RETURN_IF_ERROR(file->Write(0, text.data(), static_cast<int64_t>(text.size())));
    ADJOIN_RETURN_IF_ERROR(file->Sync());
  }
  ADJOIN_RETURN_IF_ERROR(files.Rename(temporary, path));
  return files.SyncFolder(folder);
}

absl::StatusOr<std::string> ReadWhole(FileSystem& files, const std::string& path, int64_t most) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::Source> source, files.Open(path));
  if (source->size() > most) {
    return absl::DataLossError(absl::StrCat(path, ": ", source->size(), " bytes, more than ", most));
  }
  std::string text(static_cast<size_t>(source->size()), '\0');
  ADJOIN_RETURN_IF_ERROR(source->Read(0, text.data(), source->size()));
  return text;
}

}  // namespace adjoin
