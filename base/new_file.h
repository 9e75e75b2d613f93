// Files that get their name when they are whole, and that take the place of regular files only.
//
//   ADJOIN_ASSIGN_OR_RETURN(NewFile file, NewFile::Begin("model.safetensors", NewFile::Over::kRegularFile));
//   ADJOIN_RETURN_IF_ERROR(file.Write(data));
//   ADJOIN_RETURN_IF_ERROR(file.Finish());      // until here the older file is there; without it, that one stays
//
// A rename also replaces a device node, a pipe or a socket, which other programs need: /dev/null would be a file of
// 200 MB then. Any thread; one object, one thread.
#ifndef ADJOIN_BASE_NEW_FILE_H_
#define ADJOIN_BASE_NEW_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace adjoin {

// Renames `from` to `to`, where nothing, a regular file or a symbolic link may be. A link itself is replaced, and what
// it leads to stays as it is. Errors: kFailedPrecondition (something else is there); as ErrnoStatus.
absl::Status ReplaceFile(const std::string& from, const std::string& to);

class NewFile {
 public:
  // What Finish may replace.
  enum class Over { kNothing, kRegularFile };

  // Makes an empty file with another name beside `path`. A symbolic link at `path` is followed, so the link stays.
  // Errors: kAlreadyExists (Over::kNothing, and something is there); kFailedPrecondition (what is there is no regular
  // file; a link that leads to nothing); as ErrnoStatus.
  static absl::StatusOr<NewFile> Begin(const std::string& path, Over over);
  NewFile(NewFile&& other)
      : path_(std::move(other.path_)),
        over_(other.over_),
        partial_(std::exchange(other.partial_, "")),
        fd_(std::move(other.fd_)) {}
  NewFile& operator=(NewFile&&) = delete;
  // Removes the file where Finish has not given it its name.
  ~NewFile();

  absl::Status Write(absl::string_view data);
  // The name that the file has until Finish.
  const std::string& partial() const { return partial_; }
  // Makes the content durable and gives the file its name, in one step. Errors: as Begin, for what is there now.
  absl::Status Finish();

 private:
  NewFile(std::string path, Over over, std::string partial, UniqueFd fd)
      : path_(std::move(path)), over_(over), partial_(std::move(partial)), fd_(std::move(fd)) {}

  std::string path_;  // without links
  Over over_;
  std::string partial_;  // empty: it has its name
  UniqueFd fd_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_NEW_FILE_H_
