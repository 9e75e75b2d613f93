#include "worker/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/content_hash.h"
#include "base/status_macros.h"
#include "worker/data/box_runs.h"

namespace adjoin {
namespace {

constexpr int64_t kMostManifestBytes = int64_t{1} << 30;
constexpr int64_t kMostReadAtOnce = 4 << 20;

std::string FolderOf(const std::string& dir, const CheckpointName& name) { return PathOf(dir, name.ToString()); }

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

absl::StatusOr<std::string> HashOf(const FileSystem::Source& source, int64_t offset, int64_t bytes) {
  ContentHash hash;
  std::vector<char> buffer(static_cast<size_t>(std::min(bytes, kMostReadAtOnce)));
  while (bytes > 0) {
    const int64_t now = std::min(bytes, kMostReadAtOnce);
    ADJOIN_RETURN_IF_ERROR(source.Read(offset, buffer.data(), now));
    hash.Add(buffer.data(), now);
    offset += now;
    bytes -= now;
  }
  return hash.Hex();
}

// Returns the tensors in a damaged file whose own checksums do not fit.
absl::StatusOr<std::vector<std::string>> DamagedTensors(const FileSystem::Source& source, const Manifest& manifest,
                                                        int file) {
  std::vector<std::string> damaged;
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const Manifest::Piece& piece : tensor.pieces) {
      if (piece.file != file) continue;
      ADJOIN_ASSIGN_OR_RETURN(const std::string hash,
                              HashOf(source, piece.offset, piece.box.Volume() * SizeOf(tensor.dtype)));
      if (hash != piece.hash) damaged.push_back(name);
    }
  }
  return damaged;
}

Box Relative(const Box& part, const Box& whole) {
  std::vector<Interval> dims(part.dims());
  for (int d = 0; d < part.dims(); ++d) dims[d] = {part[d].lo - whole[d].lo, part[d].hi - whole[d].lo};
  return Box(std::move(dims));
}

// Copies the cells of `part` to their positions in `whole`.
void CopyInto(const Box& whole, const Box& part, const char* cells, int64_t element, char* out) {
  for (const CellRun& run : RunsOf(whole.Shape(), Relative(part, whole))) {
    std::memcpy(out + run.first * element, cells, run.count * element);
    cells += run.count * element;
  }
}

std::vector<std::string> TextsOf(const std::vector<absl::Status>& statuses) {
  std::vector<std::string> texts;
  for (const absl::Status& status : statuses) {
    if (!status.ok()) texts.push_back(std::string(status.message()));
  }
  return texts;
}

// A new folder survives a crash only once the folder above it is synced, and so on upwards.
absl::Status SyncUpwards(FileSystem& files, std::string folder) {
  ADJOIN_RETURN_IF_ERROR(files.SyncFolder(folder));
  for (;;) {
    if (folder.empty()) return absl::OkStatus();
    const size_t slash = folder.rfind('/');
    folder.resize(slash == std::string::npos ? 0 : slash);
    const absl::Status synced = files.SyncFolder(folder);
    // This process did not make a folder that it may not read.
    if (!synced.ok() && !absl::IsPermissionDenied(synced)) return synced;
  }
}

bool Has(const std::vector<CheckpointName>& names, const CheckpointName& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool IsProven(const absl::Status& status) { return absl::IsDataLoss(status) || absl::IsNotFound(status); }

absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(FileSystem& files, const std::string& dir) {
  absl::StatusOr<std::vector<std::string>> entries = files.List(dir);
  if (absl::IsNotFound(entries.status())) return std::vector<CheckpointName>();
  ADJOIN_RETURN_IF_ERROR(entries.status());
  std::vector<CheckpointName> names;
  for (const std::string& entry : *entries) {
    if (const auto name = CheckpointName::Parse(entry)) names.push_back(*name);
  }
  std::stable_sort(names.begin(), names.end(),
                   [](const CheckpointName& a, const CheckpointName& b) { return a.NewerThan(b); });
  return names;
}

absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& dir, const CheckpointName& name) {
  const std::string path = PathOf(FolderOf(dir, name), kManifestFile);
  const absl::StatusOr<std::string> text = ReadWhole(files, path, kMostManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(path, ": there is none: the checkpoint was never finished"));
  }
  ADJOIN_RETURN_IF_ERROR(text.status());
  absl::StatusOr<Manifest> manifest = Manifest::Parse(*text);
  if (!manifest.ok()) return At(path, manifest.status());
  if (manifest->name.ToString() != name.ToString()) {
    return absl::DataLossError(
        absl::StrCat(path, ": it is of ", manifest->name.ToString(), ": the folder was renamed"));
  }
  return manifest;
}

absl::Status VerifyFile(FileSystem& files, const std::string& dir, const Manifest& manifest, int file) {
  const Manifest::File& expected = manifest.files[file];
  const std::string path = PathOf(FolderOf(dir, manifest.name), expected.name);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::Source> source, files.Open(path));
  if (source->size() != expected.bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", source->size(), " bytes; it was written with ", expected.bytes));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string hash, HashOf(*source, 0, expected.bytes));
  if (hash == expected.hash) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> damaged, DamagedTensors(*source, manifest, file));
  return absl::DataLossError(
      absl::StrCat(path, ": damaged, its checksum does not fit; ",
                   damaged.empty() ? "no tensor in it is" : absl::StrCat("damaged is ", absl::StrJoin(damaged, ", "))));
}

absl::Status VerifyPiece(FileSystem& files, const std::string& dir, const Manifest& manifest, const std::string& tensor,
                         const Manifest::Piece& piece) {
  const std::string path = PathOf(FolderOf(dir, manifest.name), manifest.files[piece.file].name);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::Source> source, files.Open(path));
  const int64_t bytes = piece.box.Volume() * SizeOf(manifest.tensors.at(tensor).dtype);
  ADJOIN_ASSIGN_OR_RETURN(const std::string hash, HashOf(*source, piece.offset, bytes));
  if (hash == piece.hash) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": damaged, the checksum of ", tensor, " does not fit"));
}

absl::Status ReadBox(FileSystem& files, const std::string& dir, const Manifest& manifest, const std::string& tensor,
                     const Box& box, void* out, int64_t* bytes_read) {
  const auto found = manifest.tensors.find(tensor);
  if (found == manifest.tensors.end()) {
    return absl::NotFoundError(absl::StrCat(FolderOf(dir, manifest.name), ": has no tensor ", tensor));
  }
  const int64_t element = SizeOf(found->second.dtype);
  for (const Manifest::Piece& piece : found->second.pieces) {
    const Box part = piece.box.Intersect(box);
    if (part.empty()) continue;
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::Source> source,
                            files.Open(PathOf(FolderOf(dir, manifest.name), manifest.files[piece.file].name)));
    std::vector<char> cells(static_cast<size_t>(part.Volume() * element));
    int64_t done = 0;
    ADJOIN_RETURN_IF_ERROR(ForEachRun(piece.box.Shape(), Relative(part, piece.box), [&](const CellRun& run) {
      const int64_t at = std::exchange(done, done + run.count * element);
      return source->Read(piece.offset + run.first * element, cells.data() + at, run.count * element);
    }));
    if (bytes_read != nullptr) *bytes_read += done;
    CopyInto(box, part, cells.data(), element, static_cast<char*>(out));
  }
  return absl::OkStatus();
}

absl::Status FinishCheckpoint(FileSystem& files, const std::string& dir, const std::vector<int>& ranks,
                              Manifest manifest) {
  const std::string folder = FolderOf(dir, manifest.name);
  for (int rank : ranks) {
    const std::string path = PathOf(folder, RankNote(rank));
    const absl::StatusOr<std::string> text = ReadWhole(files, path, kMostManifestBytes);
    if (absl::IsNotFound(text.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": rank ", rank,
                       " has written it, and rank 0 does not see it: the ranks' nodes do not share"
                       " their --output-root; right would be one file system for all of them"));
    }
    ADJOIN_RETURN_IF_ERROR(text.status());
    absl::StatusOr<RankPart> part = RankPart::Parse(*text);
    if (!part.ok()) return At(path, part.status());
    if (part->name.ToString() != manifest.name.ToString()) {
      return absl::DataLossError(absl::StrCat(path, ": it is of ", part->name.ToString()));
    }
    const int file = static_cast<int>(manifest.files.size());
    manifest.files.push_back(part->file);
    for (auto& [tensor, piece] : part->pieces) {
      piece.file = file;
      manifest.tensors[tensor].pieces.push_back(piece);
    }
  }
  const std::string text = manifest.ToText();
  // Finds now what a reader would find too late.
  if (const absl::Status fits = Manifest::Parse(text).status(); !fits.ok()) return At(folder, fits);
  // All files that the manifest names have their names before the manifest has its own.
  ADJOIN_RETURN_IF_ERROR(files.SyncFolder(folder));
  ADJOIN_RETURN_IF_ERROR(WriteDurably(files, folder, kManifestFile, text));
  ADJOIN_RETURN_IF_ERROR(SyncUpwards(files, dir));
  for (int rank : ranks) files.Remove(PathOf(folder, RankNote(rank))).IgnoreError();  // a note that stays does no harm
  return absl::OkStatus();
}

absl::Status RemoveCheckpoint(FileSystem& files, const std::string& dir, const CheckpointName& name) {
  const std::string folder = FolderOf(dir, name);
  const absl::StatusOr<std::vector<std::string>> entries = files.List(folder);
  if (absl::IsNotFound(entries.status())) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(entries.status());
  const absl::Status manifest = files.Remove(PathOf(folder, kManifestFile));
  if (!absl::IsNotFound(manifest)) {
    ADJOIN_RETURN_IF_ERROR(manifest);
    ADJOIN_RETURN_IF_ERROR(files.SyncFolder(folder));
  }
  for (const std::string& entry : *entries) {
    const absl::Status removed = entry == kManifestFile ? absl::OkStatus() : files.Remove(PathOf(folder, entry));
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  const absl::Status removed = files.Remove(folder);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

std::optional<CheckpointName> BestCheckpoint(const std::vector<std::pair<CheckpointName, Manifest>>& finished,
                                             const Retention& retention) {
  std::optional<CheckpointName> best;
  double best_value = 0;
  for (const auto& [name, manifest] : finished) {
    const auto value = manifest.validation.find(retention.keep_best);
    if (value == manifest.validation.end()) continue;
    const bool better = retention.larger_is_better ? value->second > best_value : value->second < best_value;
    if (best.has_value() && !better) continue;
    best = name;
    best_value = value->second;
  }
  return best;
}

std::vector<std::string> RemoveOld(FileSystem& files, const std::string& dir, const CheckpointName& newest,
                                   const std::vector<CheckpointName>& damaged, const Retention& retention) {
  const absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(files, dir);
  if (!names.ok()) return TextsOf({names.status()});
  std::vector<absl::Status> statuses;
  std::vector<std::pair<CheckpointName, Manifest>> finished;  // newest first
  for (const CheckpointName& name : *names) {
    if (name.tag != newest.tag || name.epoch > newest.epoch) continue;
    if (Has(damaged, name)) {
      statuses.push_back(RemoveCheckpoint(files, dir, name));
      continue;
    }
    if (retention.keep_last == 0) {  // all are kept: do not read very many manifests
      const absl::Status there = files.Open(PathOf(FolderOf(dir, name), kManifestFile)).status();
      if (absl::IsNotFound(there)) statuses.push_back(RemoveCheckpoint(files, dir, name));
      continue;
    }
    absl::StatusOr<Manifest> manifest = ReadManifest(files, dir, name);
    if (manifest.ok()) {
      finished.emplace_back(name, *std::move(manifest));
    } else if (IsProven(manifest.status())) {
      statuses.push_back(RemoveCheckpoint(files, dir, name));
    } else if (!absl::IsUnimplemented(manifest.status())) {
      statuses.push_back(manifest.status());
    }
  }
  if (retention.keep_last == 0) return TextsOf(statuses);
  const std::optional<CheckpointName> best = BestCheckpoint(finished, retention);
  for (size_t i = retention.keep_last; i < finished.size(); ++i) {
    const CheckpointName& name = finished[i].first;
    const bool is_best = best.has_value() && *best == name;
    if (is_best || name == newest) continue;
    statuses.push_back(RemoveCheckpoint(files, dir, name));
  }
  return TextsOf(statuses);
}

}  // namespace adjoin
