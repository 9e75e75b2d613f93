#include "worker/data/array_formats.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/data/byte_source.h"
#include "worker/data/hdf5_file.h"
#include "worker/data/idx_file.h"
#include "worker/data/nifti_file.h"
#include "worker/data/npy_file.h"

namespace adjoin {
namespace {

// A built-in format is a line here. HDF5 is last: its library looks for the magic further inside the file, too.
constexpr ArrayFormat (*kBuiltin[])() = {
    IdxFormat,
    NpyFormat,
    NiftiFormat,
    Hdf5Format,
};

bool IsWritten(const ArrayFormat& format) { return format.create != nullptr; }

std::string Listed(const std::vector<ArrayFormat>& formats, const std::function<bool(const ArrayFormat&)>& included,
                   std::string ArrayFormat::*text) {
  std::vector<std::string> texts;
  for (const ArrayFormat& format : formats) {
    if (included == nullptr || included(format)) texts.push_back(format.*text);
  }
  if (texts.empty()) return "none";
  if (texts.size() == 1) return texts[0];
  return absl::StrCat(absl::StrJoin(texts.begin(), texts.end() - 1, ", "), " or ", texts.back());
}

}  // namespace

absl::Status ArrayFormats::Add(ArrayFormat format) {
  if (format.name.empty()) return absl::InvalidArgumentError("a data format without a name");
  if (Find(format.name) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("data format '", format.name, "' is there already"));
  }
  const std::pair<const char*, bool> required[] = {
      {"sniff", format.sniff != nullptr},
      {"header", format.header != nullptr},
      {"open", format.open != nullptr},
      {"check", format.check != nullptr},
      {"create and find, or neither", (format.create == nullptr) == (format.find == nullptr)},
  };
  for (const auto& [function, present] : required) {
    if (present) continue;
    return absl::InvalidArgumentError(absl::StrCat("data format '", format.name, "' needs the function ", function));
  }
  if (format.title.empty()) format.title = format.name;
  formats_.push_back(std::move(format));
  return absl::OkStatus();
}

const ArrayFormat* ArrayFormats::Find(absl::string_view name) const {
  const auto found =
      std::find_if(formats_.begin(), formats_.end(), [&](const ArrayFormat& format) { return format.name == name; });
  return found == formats_.end() ? nullptr : &*found;
}

absl::StatusOr<const ArrayFormat*> ArrayFormats::Named(absl::string_view name) const {
  if (const ArrayFormat* const format = Find(name); format != nullptr) return format;
  return absl::InvalidArgumentError(absl::StrCat("format '", name, "' is unknown; right would be ", Names()));
}

absl::StatusOr<const ArrayFormat*> ArrayFormats::Written(absl::string_view name) const {
  const ArrayFormat* const format = Find(name);
  if (format != nullptr && IsWritten(*format)) return format;
  return absl::InvalidArgumentError(
      absl::StrCat("format '", name, "' cannot be written; right would be ", Names(IsWritten)));
}

absl::StatusOr<const ArrayFormat*> ArrayFormats::Of(const std::string& path, const ArrayFileOptions& options) const {
  if (!options.format.empty()) return Named(options.format);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  char bytes[8];
  ADJOIN_ASSIGN_OR_RETURN(const int64_t count, source->Read(bytes, sizeof(bytes)));
  const FileStart start{absl::string_view(bytes, static_cast<size_t>(count)), source->compressed(), path};
  const ArrayFormat* maybe = nullptr;
  for (const ArrayFormat& format : formats_) {
    const Likeness likeness = format.sniff(start);
    if (likeness == Likeness::kYes) return &format;
    if (likeness == Likeness::kMaybe && maybe == nullptr) maybe = &format;
  }
  if (maybe != nullptr) return maybe;
  return absl::InvalidArgumentError(absl::StrCat(
      source->name(), count == 0 ? ": empty" : ": of no format that can be read", "; right would be ", Titles()));
}

std::string ArrayFormats::Names(const std::function<bool(const ArrayFormat&)>& included) const {
  return Listed(formats_, included, &ArrayFormat::name);
}

std::string ArrayFormats::Titles(const std::function<bool(const ArrayFormat&)>& included) const {
  return Listed(formats_, included, &ArrayFormat::title);
}

const ArrayFormats& BuiltinArrayFormats() {
  static const ArrayFormats& formats = *[] {
    auto* const builtin = new ArrayFormats();
    for (const auto& format : kBuiltin) {
      const absl::Status added = builtin->Add(format());
      if (added.ok()) continue;
      std::cerr << added << std::endl;
      std::abort();
    }
    return builtin;
  }();
  return formats;
}

}  // namespace adjoin
