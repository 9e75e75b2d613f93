#include "worker/checkpoint/recorded_files.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

class WholeSource : public FileSystem::Source {
 public:
  WholeSource(std::string path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}
  int64_t size() const override { return static_cast<int64_t>(content_.size()); }
  absl::Status Read(int64_t offset, void* data, int64_t bytes) const override {
    if (offset + bytes > size()) return absl::DataLossError(absl::StrCat(path_, ": ends too early"));
    std::memcpy(data, content_.data() + offset, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const std::string content_;
};

void WriteAt(int64_t offset, const std::string& data, std::string& content) {
  const size_t end = static_cast<size_t>(offset) + data.size();
  if (content.size() < end) content.resize(end, '\0');
  std::memcpy(&content[static_cast<size_t>(offset)], data.data(), data.size());
}

}  // namespace

class RecordedFiles::OpenFile : public FileSystem::File {
 public:
  OpenFile(RecordedFiles* files, std::string path, int node) : files_(files), path_(std::move(path)), node_(node) {}

  absl::Status Write(int64_t offset, const void* data, int64_t bytes) override {
    const std::lock_guard<std::mutex> lock(files_->mutex_);
    if (files_->space_ >= 0) {
      if (bytes > files_->space_) {
        return absl::ResourceExhaustedError(absl::StrCat(path_, ": No space left on device"));
      }
      files_->space_ -= bytes;
    }
    Operation write(Operation::Kind::kWrite);
    write.node = node_;
    write.offset = offset;
    write.data.assign(static_cast<const char*>(data), static_cast<size_t>(bytes));
    files_->Record(std::move(write));
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    const std::lock_guard<std::mutex> lock(files_->mutex_);
    Operation sync(Operation::Kind::kSync);
    sync.node = node_;
    files_->Record(std::move(sync));
    return absl::OkStatus();
  }

 private:
  RecordedFiles* const files_;
  const std::string path_;
  const int node_;
};

RecordedFiles::RecordedFiles() { nodes_[0].folder = true; }

absl::StatusOr<int> RecordedFiles::Find(const std::string& path) const {
  int node = 0;
  for (absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    const auto& entries = nodes_.at(node).entries;
    const auto found = entries.find(std::string(part));
    if (found == entries.end()) return absl::NotFoundError(absl::StrCat(path, ": there is none"));
    node = found->second;
  }
  return node;
}

absl::StatusOr<int> RecordedFiles::FindFolder(const std::string& path, std::string* name) const {
  const size_t slash = path.rfind('/');
  *name = slash == std::string::npos ? path : path.substr(slash + 1);
  return Find(slash == std::string::npos ? "" : path.substr(0, slash));
}

void RecordedFiles::Apply(const Operation& operation) {
  using Kind = Operation::Kind;
  Node& node = nodes_[operation.node];
  if (operation.kind == Kind::kLink) {
    node.entries[operation.name] = operation.target;
    nodes_[operation.target].folder = operation.folder;
  }
  if (operation.kind == Kind::kUnlink) node.entries.erase(operation.name);
  if (operation.kind == Kind::kRename) {
    node.entries.erase(operation.name);
    node.entries[operation.other] = operation.target;
  }
  if (operation.kind == Kind::kTruncate) node.content.clear();
  if (operation.kind == Kind::kWrite) WriteAt(operation.offset, operation.data, node.content);
}

void RecordedFiles::Record(Operation operation) {
  Apply(operation);
  operations_.push_back(std::move(operation));
}

absl::Status RecordedFiles::MakeFolder(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string so_far;
  for (absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    so_far = PathOf(so_far, std::string(part));
    if (Find(so_far).ok()) continue;
    Operation link(Operation::Kind::kLink);
    ADJOIN_ASSIGN_OR_RETURN(link.node, FindFolder(so_far, &link.name));
    link.target = next_++;
    link.folder = true;
    Record(std::move(link));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileSystem::File>> RecordedFiles::Create(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<int> existing = Find(path);
  Operation operation(existing.ok() ? Operation::Kind::kTruncate : Operation::Kind::kLink);
  if (existing.ok()) {
    operation.node = *existing;
  } else {
    ADJOIN_ASSIGN_OR_RETURN(operation.node, FindFolder(path, &operation.name));
    operation.target = next_++;
  }
  const int node = existing.ok() ? *existing : operation.target;
  Record(std::move(operation));
  return std::unique_ptr<File>(new OpenFile(this, path, node));
}

absl::Status RecordedFiles::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Operation rename(Operation::Kind::kRename);
  ADJOIN_ASSIGN_OR_RETURN(rename.target, Find(from));
  ADJOIN_ASSIGN_OR_RETURN(rename.node, FindFolder(from, &rename.name));
  ADJOIN_RETURN_IF_ERROR(FindFolder(to, &rename.other).status());
  Record(std::move(rename));
  return absl::OkStatus();
}

absl::Status RecordedFiles::SyncFolder(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Operation sync(Operation::Kind::kSyncFolder);
  ADJOIN_ASSIGN_OR_RETURN(sync.node, Find(path));
  Record(std::move(sync));
  return absl::OkStatus();
}

absl::Status RecordedFiles::Remove(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ADJOIN_ASSIGN_OR_RETURN(const int node, Find(path));
  if (!nodes_[node].entries.empty()) return absl::UnavailableError(absl::StrCat(path, ": Directory not empty"));
  Operation unlink(Operation::Kind::kUnlink);
  ADJOIN_ASSIGN_OR_RETURN(unlink.node, FindFolder(path, &unlink.name));
  Record(std::move(unlink));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RecordedFiles::List(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ADJOIN_ASSIGN_OR_RETURN(const int node, Find(path));
  std::vector<std::string> names;
  for (const auto& [name, target] : nodes_.at(node).entries) names.push_back(name);
  return names;
}

absl::StatusOr<std::unique_ptr<FileSystem::Source>> RecordedFiles::Open(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ADJOIN_ASSIGN_OR_RETURN(const int node, Find(path));
  return std::unique_ptr<Source>(new WholeSource(path, nodes_.at(node).content));
}

std::unique_ptr<RecordedFiles> RecordedFiles::AfterCrash(size_t operations, std::mt19937_64& random) const {
  using Kind = Operation::Kind;
  const auto chance = [&] { return random() % 2 == 0; };
  // By node, its last sync: the operations on the node before it are durable.
  std::map<int, size_t> synced;
  for (size_t i = 0; i < operations; ++i) {
    const Kind kind = operations_[i].kind;
    if (kind == Kind::kSync || kind == Kind::kSyncFolder) synced[operations_[i].node] = i;
  }
  auto left = std::make_unique<RecordedFiles>();
  left->next_ = next_;
  // How much is lost differs from crash to crash, from nearly nothing to nearly everything.
  const uint64_t loss = random() % 9;
  for (size_t i = 0; i < operations; ++i) {
    Operation operation = operations_[i];
    const auto until = synced.find(operation.node);
    const bool durable = until != synced.end() && i < until->second;
    if (!durable && random() % 8 < loss) continue;
    if (!durable && operation.kind == Kind::kWrite && chance()) {
      operation.data.resize(random() % (operation.data.size() + 1));
    }
    if (!durable && operation.kind == Kind::kRename && random() % 4 == 0) {
      operation.kind = Kind::kLink;  // both names
      operation.name = operation.other;
    }
    left->Apply(operation);
  }
  return left;
}

void RecordedFiles::Collect(int folder, const std::string& path, std::map<std::string, std::string>& contents) const {
  for (const auto& [name, node] : nodes_.at(folder).entries) {
    const std::string below = PathOf(path, name);
    if (nodes_.at(node).folder) {
      Collect(node, below, contents);
    } else {
      contents[below] = nodes_.at(node).content;
    }
  }
}

std::map<std::string, std::string> RecordedFiles::Contents() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, std::string> contents;
  Collect(0, "", contents);
  return contents;
}

void RecordedFiles::SetContent(const std::string& path, const std::string& content) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<int> node = Find(path);
  if (node.ok()) nodes_[*node].content = content;
}

}  // namespace adjoin
