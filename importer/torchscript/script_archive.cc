#include "importer/torchscript/script_archive.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/graph/op_graph.h"

namespace adjoin {
namespace {

constexpr int64_t kMaxPickleBytes = 16 << 20;
constexpr int64_t kMaxShortEntry = 100;  // "little"
constexpr size_t kMaxShownName = 200;
constexpr char kConstants[] = "constants.pkl", kModel[] = "data.pkl";

using Kind = PickleValue::Kind;

// "model/" of the archive's "model/constants.pkl", beside which the model is; none where there is none.
std::optional<std::string> FolderOf(const ZipReader& zip) {
  for (const ZipEntry& entry : zip.entries()) {
    absl::string_view folder = entry.name;
    if (!absl::ConsumeSuffix(&folder, kConstants) || (!folder.empty() && !absl::EndsWith(folder, "/"))) continue;
    if (zip.Find(absl::StrCat(folder, kModel)) != nullptr) return std::string(folder);
  }
  return std::nullopt;
}

// "a.b" and "C" of "a.b.C".
std::pair<std::string, std::string> SplitName(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// "torch.nn.modules.conv.Conv2d" of "__torch__.torch.nn.modules.conv.___torch_mangle_8.Conv2d".
std::string TypeOf(const std::string& class_name) {
  std::vector<std::string> parts = absl::StrSplit(class_name, '.');
  parts.erase(std::remove_if(parts.begin(), parts.end(),
                             [](const std::string& part) {
                               return part == "__torch__" || absl::StartsWith(part, "___torch_mangle_");
                             }),
              parts.end());
  return absl::StrJoin(parts, ".");
}

}  // namespace

bool ScriptArchive::Is(const ZipReader& zip) { return FolderOf(zip).has_value(); }

absl::StatusOr<std::unique_ptr<ScriptArchive>> ScriptArchive::Open(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveFile> file, ArchiveFile::Open(path));
  std::unique_ptr<ScriptArchive> archive(new ScriptArchive(std::move(file)));
  ADJOIN_RETURN_IF_ERROR(archive->Load());
  return archive;
}

absl::Status ScriptArchive::Load() {
  ADJOIN_ASSIGN_OR_RETURN(zip_, ZipReader::Open(file().whole(), {true, "the archive as torch.jit.save wrote it"}));
  const std::optional<std::string> folder = FolderOf(*zip_);
  if (!folder.has_value())
    return absl::InvalidArgumentError(absl::StrCat(path(), ": not an archive of torch.jit.save"));
  folder_ = *folder;
  ADJOIN_RETURN_IF_ERROR(CheckOrder());
  ADJOIN_ASSIGN_OR_RETURN(model_, ReadValues(kModel));
  ADJOIN_ASSIGN_OR_RETURN(constants_, ReadValues(kConstants));
  if (model_.values[model_.root].kind != Kind::kObject) {
    return absl::DataLossError(absl::StrCat(path(), ": its ", kModel, " has no module"));
  }
  ADJOIN_RETURN_IF_ERROR(AddModule(model_.root, "", 0));
  return AddConstants();
}

absl::Status ScriptArchive::CheckOrder() const {
  const ZipEntry* order = zip_->Find(folder_ + "byteorder");
  if (order == nullptr) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, zip_->ReadWhole(*order, kMaxShortEntry));
  if (text == "little") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": its byteorder is not little; right would be a trace on such a machine"));
}

absl::StatusOr<PickledValues> ScriptArchive::ReadValues(const std::string& name) const {
  const ZipEntry* entry = zip_->Find(folder_ + name);
  if (entry == nullptr) return absl::DataLossError(absl::StrCat(path(), ": it has no ", name));
  ADJOIN_ASSIGN_OR_RETURN(const std::string bytes, zip_->ReadWhole(*entry, kMaxPickleBytes));
  return ReadPickle(bytes, absl::StrCat(path(), ": ", name), PickleForm::kModules);
}

// A module's own tensors have their names before those of modules in it, as in state_dict.
absl::Status ScriptArchive::AddModule(size_t object, const std::string& path, int depth) {
  const auto bad = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(this->path(), ": module ", PrintableText(path, kMaxShownName), " ", what));
  };
  if (depth > kMaxModuleDepth) return bad(absl::StrCat("is nested more than ", kMaxModuleDepth, " deep"));
  if (path.size() > kMaxModelName) return bad("has too long a name");
  const PickleValue& value = model_.values[object];
  if (value.text.size() > kMaxModelName) return bad("is of a class of too long a name");
  const std::string class_name = absl::StrReplaceAll(value.text, {{" ", "."}});
  ScriptModule& module = modules_[object];
  if (modules_.size() > kMaxScriptModules) return bad(absl::StrCat("is one of more than ", kMaxScriptModules));
  module = {path, class_name, TypeOf(class_name), {}};
  ADJOIN_ASSIGN_OR_RETURN(const ScriptClass* type, FindClass(class_name));
  const std::string prefix = path.empty() ? "" : absl::StrCat(path, ".");
  std::vector<std::pair<size_t, std::string>> within;
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const PickleValue& key = model_.values[value.items[i]];
    const size_t item = value.items[i + 1];
    if (key.kind != Kind::kText || key.text.empty()) return bad("has an attribute without a name");
    if (key.text.size() > kMaxModelName) return bad("has an attribute of too long a name");
    // Layers and weights are called by it.
    if (!IsPrintableText(key.text)) {
      return bad(absl::StrCat("has the attribute ", PrintableText(key.text, kMaxShownName),
                              "; right would be a name of UTF-8 without control characters"));
    }
    if (!module.attributes.emplace(key.text, item).second) return bad("has an attribute twice");
    const std::string name = absl::StrCat(prefix, key.text);
    if (model_.values[item].kind == Kind::kObject) within.emplace_back(item, name);
    if (model_.values[item].kind != Kind::kTensor || names_.count(item) > 0) continue;
    if (name.size() > kMaxModelName) return bad("has a tensor of too long a name");
    ADJOIN_RETURN_IF_ERROR(AddTensor(item, name, "data/"));
    if (type->parameters.count(key.text) > 0) {
      // Another module may have it as a buffer: it is trained all the same.
      const std::string& first = names_.at(item);
      buffers_.erase(first);
      attributes_.erase(first);
      if (model_.values[item].tensor.requires_grad) without_gradient_.erase(first);
      continue;
    }
    if (names_.at(item) != name) continue;
    buffers_.insert(name);
    if (type->buffers.count(key.text) == 0) attributes_.insert(name);
  }
  for (const auto& [item, name] : within) {
    if (modules_.count(item) == 0) ADJOIN_RETURN_IF_ERROR(AddModule(item, name, depth + 1));
  }
  return absl::OkStatus();
}

absl::Status ScriptArchive::AddTensor(size_t value, const std::string& name, const std::string& storages) {
  StoredTensor tensor = model_.values[value].tensor;
  const std::string view = absl::StrCat(tensor.storage, " ", static_cast<int>(tensor.dtype), " ", tensor.offset, " ",
                                        absl::StrJoin(tensor.shape, ","), " ", absl::StrJoin(tensor.stride, ","));
  const auto [same, is_first] = name_of_view_.emplace(view, name);
  names_[value] = same->second;
  if (!is_first) return absl::OkStatus();
  tensor.name = name;
  if (!tensor.requires_grad) without_gradient_.insert(name);
  return Add(tensor, zip_->Find(absl::StrCat(folder_, storages, tensor.storage)));
}

absl::Status ScriptArchive::AddConstants() {
  if (constants_.values[constants_.root].kind != Kind::kTuple) {
    return absl::DataLossError(absl::StrCat(path(), ": its ", kConstants, " is no tuple"));
  }
  const std::vector<size_t>& items = constants_.values[constants_.root].items;
  for (size_t i = 0; i < items.size(); ++i) {
    PickleValue& value = constants_.values[items[i]];
    if (value.kind != Kind::kTensor || !value.tensor.name.empty()) continue;
    value.tensor.name = absl::StrCat("CONSTANTS.c", i);
    buffers_.insert(value.tensor.name);
    attributes_.insert(value.tensor.name);
    ADJOIN_RETURN_IF_ERROR(Add(value.tensor, zip_->Find(absl::StrCat(folder_, "constants/", value.tensor.storage))));
  }
  return absl::OkStatus();
}

const PickleValue* ScriptArchive::Constant(size_t index) const {
  const std::vector<size_t>& items = constants_.values[constants_.root].items;
  return index < items.size() ? &constants_.values[items[index]] : nullptr;
}

std::string ScriptArchive::FileOf(const std::string& name) const {
  return absl::StrCat(path(), ": code/",
                      PrintableText(absl::StrReplaceAll(SplitName(name).first, {{".", "/"}}), kMaxShownName), ".py");
}

absl::StatusOr<const ScriptFile*> ScriptArchive::FindFile(const std::string& module) const {
  const auto known = files_.find(module);
  if (known != files_.end()) return &known->second;
  const std::string where = FileOf(module + ".");
  const ZipEntry* entry = zip_->Find(absl::StrCat(folder_, "code/", absl::StrReplaceAll(module, {{".", "/"}}), ".py"));
  if (entry == nullptr) return absl::DataLossError(absl::StrCat(where, " is missing"));
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, zip_->ReadWhole(*entry, kMaxScriptBytes));
  code_bytes_ += static_cast<int64_t>(text.size());
  if (code_bytes_ > kMaxCodeBytes) {
    return absl::DataLossError(absl::StrCat(path(), ": its methods have more than ", kMaxCodeBytes, " bytes"));
  }
  ADJOIN_ASSIGN_OR_RETURN(ScriptFile file, ParseScript(text, where));
  return &files_.emplace(module, std::move(file)).first->second;
}

absl::StatusOr<const ScriptClass*> ScriptArchive::FindClass(const std::string& name) const {
  const auto [module, last] = SplitName(name);
  ADJOIN_ASSIGN_OR_RETURN(const ScriptFile* file, FindFile(module));
  const auto found = file->classes.find(last);
  if (found != file->classes.end()) return &found->second;
  return absl::DataLossError(absl::StrCat(FileOf(name), ": it has no class ", PrintableText(last, kMaxShownName)));
}

absl::StatusOr<const ScriptMethod*> ScriptArchive::FindFunction(const std::string& name) const {
  const auto [module, last] = SplitName(name);
  ADJOIN_ASSIGN_OR_RETURN(const ScriptFile* file, FindFile(module));
  const auto found = file->functions.find(last);
  if (found != file->functions.end()) return &found->second;
  return absl::DataLossError(absl::StrCat(FileOf(name), ": it has no function ", PrintableText(last, kMaxShownName)));
}

}  // namespace adjoin
