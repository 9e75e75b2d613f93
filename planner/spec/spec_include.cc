#include "planner/spec/spec_include.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "planner/spec/spec_file.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Reads a file and what it includes into parts, in the order in which they stand in the job.
class Reader {
 public:
  absl::Status Read(const std::string& path, const std::string& name) {
    ADJOIN_ASSIGN_OR_RETURN(std::string text, ReadSpecFile(path));
    bytes_ += text.size();
    if (bytes_ > kMaxSpecBytes) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": with this file the job has more than ", kMaxSpecBytes,
                                                     " bytes, the most that it may have with all its includes"));
    }
    if (++files_ > kMaxIncludedFiles) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": a job includes at most ", kMaxIncludedFiles, " files"));
    }
    ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, ParseSpec(text, name));
    std::error_code ignored;
    open_.push_back({name, fs::weakly_canonical(path, ignored)});
    for (int i = 0; i < parsed.spec.include_size(); ++i) {
      const std::string at = parsed.locations.At(absl::StrCat("include[", i, "]"));
      ADJOIN_RETURN_IF_ERROR(Include(parsed.spec.include(i), at));
    }
    open_.pop_back();
    parsed.spec.clear_include();
    parts_.push_back({std::move(parsed.locations), std::move(parsed.spec)});
    text_ = std::move(text);
    return absl::OkStatus();
  }

  std::vector<SpecLocations::Part>& parts() { return parts_; }
  // The text of the file that was read last: the job's own.
  std::string& text() { return text_; }

 private:
  struct OpenFile {
    std::string name;
    fs::path canonical;
  };

  // `at`: the location of the include.
  absl::Status Include(const std::string& file, const std::string& at) {
    const auto wrong = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat(at, ": include \"", file, "\": ", what...));
    };
    if (file.empty()) return wrong("is no name of a file");
    if (open_.size() > kMaxIncludeDepth) {
      return wrong("more than ", kMaxIncludeDepth, " files include one another, which is the most");
    }
    const fs::path folder =
        open_.back().name == kStandardInput ? fs::path() : fs::path(open_.back().name).parent_path();
    std::string path = (folder / file).lexically_normal().string();
    if (path == "-") path = "./-";
    std::error_code ignored;
    const fs::path canonical = fs::weakly_canonical(path, ignored);
    const auto same =
        std::find_if(open_.begin(), open_.end(), [&](const OpenFile& each) { return each.canonical == canonical; });
    if (same != open_.end()) {
      std::vector<std::string> circle;
      for (auto each = same; each != open_.end(); ++each) circle.push_back(each->name);
      circle.push_back(path);
      return wrong("is a circle: ", absl::StrJoin(circle, " includes "));
    }
    absl::Status status = Read(path, path);
    // A file that cannot be read is the fault of the line that names it; other errors are at a place of their own.
    if (absl::IsNotFound(status)) return absl::NotFoundError(wrong(status.message()).message());
    return status;
  }

 public:
  static constexpr char kStandardInput[] = "standard input";

 private:
  size_t bytes_ = 0;
  int files_ = -1;  // without the job's own
  std::vector<OpenFile> open_;
  std::vector<SpecLocations::Part> parts_;
  std::string text_;
};

// Returns the path of the innermost field whose location in the text is `at`; "" where there is none.
std::string PathAt(const Message& message, const SpecLocations& locations, const std::string& at,
                   const std::string& around) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  std::string found;
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string path = absl::StrCat(around, around.empty() ? "" : ".", field->name(),
                                            field->is_repeated() ? absl::StrCat("[", i, "]") : "");
      if (locations.At(path) == at) found = path;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
        const Message& below = field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                    : reflection.GetMessage(message, field);
        const std::string inner = PathAt(below, locations, at, path);
        if (!inner.empty()) return inner;
      }
      if (!found.empty()) return found;
    }
  }
  return "";
}

// Returns the "NAME:LINE:COLUMN" with which `message` begins; "" where it does not.
std::string LeadingLocation(absl::string_view message, const std::string& name) {
  if (!absl::StartsWith(message, name + ":")) return "";
  size_t end = name.size();
  for (int number = 0; number < 2; ++number) {
    if (end >= message.size() || message[end] != ':') return "";
    const size_t begin = ++end;
    while (end < message.size() && message[end] >= '0' && message[end] <= '9') ++end;
    if (end == begin) return "";
  }
  return std::string(message.substr(0, end));
}

}  // namespace

absl::StatusOr<LoadedSpec> LoadSpec(const std::string& path, const SpecChanges& changes) {
  const std::string name = path == "-" ? Reader::kStandardInput : path;
  Reader reader;
  ADJOIN_RETURN_IF_ERROR(reader.Read(path, name));
  LoadedSpec loaded;
  const bool included = reader.parts().size() > 1;
  for (const SpecLocations::Part& part : reader.parts()) loaded.parsed.spec.MergeFrom(part.spec);
  loaded.source.name = included ? absl::StrCat(name, " with its includes") : name;
  loaded.source.text = std::move(reader.text());
  loaded.parsed.locations =
      included ? SpecLocations(std::move(reader.parts())) : std::move(reader.parts().back().locations);
  if (included && !google::protobuf::TextFormat::PrintToString(loaded.parsed.spec, &loaded.source.text)) {
    return absl::InternalError("the job cannot be written as text");
  }
  if (changes.empty()) return loaded;
  ADJOIN_ASSIGN_OR_RETURN(loaded.source, WithChanges(loaded.source, changes));
  ADJOIN_ASSIGN_OR_RETURN(loaded.parsed, ParseSpec(loaded.source.text, loaded.source.name));
  return loaded;
}

absl::Status AtIncludedFile(const absl::Status& status, const LoadedSpec& loaded) {
  const std::string at = LeadingLocation(status.message(), loaded.source.name);
  if (at.empty()) return status;
  const absl::StatusOr<ParsedSpec> source = ParseSpec(loaded.source.text, loaded.source.name);
  if (!source.ok()) return status;
  const std::string path = PathAt(source->spec, source->locations, at, "");
  if (path.empty()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(loaded.parsed.locations.At(path), status.message().substr(at.size())));
}

}  // namespace adjoin
