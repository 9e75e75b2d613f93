#include "worker/checkpoint/rank_file.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/content_hash.h"
#include "base/status_macros.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

constexpr int64_t kMostStreamedAtOnce = 4 << 20;

// A file that is written from its beginning to its end.
class HashedFile {
 public:
  HashedFile(std::unique_ptr<FileSystem::File> file, const std::atomic<bool>& stop)
      : file_(std::move(file)), stop_(stop) {}

  // `piece`: the checksum of the tensor that `data` belongs to; may be null.
  absl::Status Append(const void* data, int64_t bytes, ContentHash* piece) {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      if (stop_) return absl::CancelledError("the session ends");
      const int64_t now = std::min(bytes, kMostStreamedAtOnce);
      ADJOIN_RETURN_IF_ERROR(file_->Write(size_, from, now));
      whole_.Add(from, now);
      if (piece != nullptr) piece->Add(from, now);
      from += now;
      size_ += now;
      bytes -= now;
    }
    return absl::OkStatus();
  }

  absl::Status Sync() { return file_->Sync(); }
  int64_t size() const { return size_; }
  std::string Hash() const { return whole_.Hex(); }

 private:
  const std::unique_ptr<FileSystem::File> file_;
  const std::atomic<bool>& stop_;
  ContentHash whole_;
  int64_t size_ = 0;
};

}  // namespace

bool WritesBox(const Layout& home, int rank, int tensor) {
  const std::optional<std::vector<int64_t>> coords = home.mesh().CoordsOf(rank);
  if (!coords.has_value()) return false;
  if (home.BoxOf(rank).empty()) return false;
  for (int axis = 0; axis < home.mesh().axes(); ++axis) {
    const bool copies = home.placements()[axis].kind == Placement::Kind::kBroadcast;
    if (copies && (*coords)[axis] != tensor % home.mesh().shape()[axis]) return false;
  }
  return true;
}

absl::Status WriteRankFile(FileSystem& files, const std::string& folder, const CheckpointName& name, int rank,
                           const std::vector<HeldBox>& held, const std::atomic<bool>& stop) {
  if (held.empty()) return absl::OkStatus();
  std::vector<SafetensorsEntry> entries;
  for (const HeldBox& box : held) entries.push_back({box.tensor, box.dtype, box.box.Shape()});
  ADJOIN_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(entries));
  RankPart part;
  part.name = name;
  part.file.name = RankFile(rank);
  const std::string path = PathOf(folder, part.file.name);
  const std::string temporary = absl::StrCat(path, ".new");
  {
    ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<FileSystem::File> created, files.Create(temporary));
    HashedFile file(std::move(created), stop);
    ADJOIN_RETURN_IF_ERROR(file.Append(header.data(), static_cast<int64_t>(header.size()), nullptr));
    for (const HeldBox& box : held) {
      Manifest::Piece& piece = part.pieces[box.tensor];
      piece.box = box.box;
      piece.offset = file.size();
      ContentHash hash;
      ADJOIN_RETURN_IF_ERROR(file.Append(box.data, box.Bytes(), &hash));
      piece.hash = hash.Hex();
    }
    ADJOIN_RETURN_IF_ERROR(file.Sync());
    part.file.bytes = file.size();
    part.file.hash = file.Hash();
  }
  ADJOIN_RETURN_IF_ERROR(files.Rename(temporary, path));
  return WriteDurably(files, folder, RankNote(rank), part.ToText());  // syncs the folder, and so both names
}

absl::StatusOr<Manifest::File> CopyFile(FileSystem& files, const std::string& from, int64_t bytes,
                                        const std::string& folder, const std::string& name,
                                        const std::atomic<bool>& stop) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::Source> source, files.Open(from));
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<FileSystem::File> created, files.Create(PathOf(folder, name)));
  HashedFile file(std::move(created), stop);
  std::vector<char> buffer(static_cast<size_t>(std::min(bytes, kMostStreamedAtOnce)));
  while (file.size() < bytes) {
    const int64_t now = std::min(bytes - file.size(), kMostStreamedAtOnce);
    ADJOIN_RETURN_IF_ERROR(source->Read(file.size(), buffer.data(), now));
    ADJOIN_RETURN_IF_ERROR(file.Append(buffer.data(), now, nullptr));
  }
  ADJOIN_RETURN_IF_ERROR(file.Sync());
  return Manifest::File{name, bytes, file.Hash()};
}

}  // namespace adjoin
