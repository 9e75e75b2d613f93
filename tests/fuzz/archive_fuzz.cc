// What PyTorch and NumPy write, read as data: zip archives; a pickle where the input begins with one; the JSON of a
// program where it begins with a brace, the text of traced methods where it begins with "class ", or such a text and
// both pickles of a trace where it begins with "trace", which then stand in an archive with right checksums.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "importer/archive/pickle_values.h"
#include "importer/archive/pt2_archive.h"
#include "importer/archive/tensor_pickle.h"
#include "importer/archive/testing/zip_bytes.h"
#include "importer/archive/zip_reader.h"
#include "importer/constants/constant_evaluator.h"
#include "importer/graph/op_graph.h"
#include "importer/import_model.h"
#include "importer/torchscript/script_archive.h"
#include "importer/torchscript/script_inliner.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/check.h"

namespace adjoin {
namespace {

constexpr int64_t kBuffers = 4 << 20;
// A JSON value of two characters takes 16 bytes, twice while a list grows; an object more. A pickle's instruction of
// one byte makes a value of 200, twice while the list grows.
constexpr int64_t kPerByte = 1024;
// What a trace's methods make may be more than they have bytes, as they call each other: 20,000 operators, and a
// million values of 200 bytes, each perhaps also an operator's argument or result.
constexpr int64_t kInlined = int64_t{1} << 30;
constexpr char kBetweenParts[] = "\n====\n";  // of a trace
constexpr ConstantLimits kLimits = {1 << 12, 1 << 18, 500, 1 << 18};

// The bytes as a file without a name on any disk.
class FileInMemory {
 public:
  explicit FileInMemory(absl::string_view bytes) : fd_(memfd_create("archive", MFD_CLOEXEC)) {
    FuzzCheck(fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
              "a file in memory is written");
  }
  ~FileInMemory() { close(fd_); }
  FileInMemory(const FileInMemory&) = delete;
  FileInMemory& operator=(const FileInMemory&) = delete;
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

void CheckRefusal(const absl::Status& status, const std::string& what) {
  FuzzCheck(absl::IsDataLoss(status) || absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status),
            absl::StrCat(what, ": it is the file's fault: ", status.ToString()));
  const std::string message(status.message());
  FuzzCheck(std::all_of(message.begin(), message.end(),
                        [](unsigned char c) { return c >= 0x80 || absl::ascii_isprint(c) || c == '\n' || c == '\t'; }),
            "a message controls no terminal");
  FuzzCheck(message.size() < 16384, "a message can be read");
}

void CheckImport(const ModelArchive& archive, const OpGraph& graph) {
  for (const bool outline : {false, true}) {
    ImportOptions options;
    options.outline = outline;
    const absl::StatusOr<ImportedModel> model = ImportModel(archive, graph, options);
    if (!model.ok()) CheckRefusal(model.status(), "the model");
  }
}

void CheckProgram(const Pt2Archive& archive) {
  const absl::StatusOr<OpGraph> graph = ReadOpGraph(archive.program(), archive.path());
  if (!graph.ok()) return CheckRefusal(graph.status(), "the program");
  ConstantEvaluator constants(archive, *graph, kLimits);
  for (const OpNode& node : graph->nodes) {
    for (const std::string& output : node.outputs) {
      const auto value = constants.Evaluate(output);
      if (!value.ok()) {
        CheckRefusal(value.status(), "a constant");
        continue;
      }
      FuzzCheck(constants.IsConstant(output) && value->Elements() <= kLimits.elements, "a constant is within bounds");
      FuzzCheck(value->reals.size() + value->wholes.size() == static_cast<size_t>(value->Elements()),
                "a constant has the elements of its shape");
    }
  }
  CheckImport(archive, *graph);
}

void CheckPeak(const AllocationPeak& peak, int64_t most, absl::string_view what) {
  FuzzCheck(peak.bytes() <= most, absl::StrCat(what, " takes ", peak.bytes(), " bytes where ", most, " are right"));
}

// The bytes of an archive's entries where they are not deflated, at most those that are read of one.
int64_t ContentBytes(const std::string& path) {
  const auto input = ArchiveFile::Open(path);
  FuzzCheck(input.ok(), "a file in memory is opened");
  const auto zip = ZipReader::Open((*input)->whole(), {true, "a file of numpy.savez"});
  int64_t sum = (*input)->whole().bytes;
  if (!zip.ok()) return sum;
  for (const ZipEntry& entry : zip->entries()) sum += std::min<int64_t>(entry.bytes, 16 << 20);
  return sum;
}

// A trace of one argument of 2x3.
void CheckTrace(const std::string& path) {
  const int64_t deserved = kPerByte * ContentBytes(path) + kBuffers;
  const AllocationPeak opening;
  const absl::StatusOr<std::unique_ptr<ScriptArchive>> archive = ScriptArchive::Open(path);
  CheckPeak(opening, deserved, "a trace that is opened");
  if (!archive.ok()) return CheckRefusal(archive.status(), "the trace");
  const AllocationPeak inlining;
  const absl::StatusOr<OpGraph> graph = InlineScript(**archive, {{{2, 3}, std::nullopt}});
  CheckPeak(inlining, deserved + kInlined, "a trace whose methods are put into each other");
  if (!graph.ok()) return CheckRefusal(graph.status(), "the methods");
  FuzzCheck(graph->nodes.size() <= kMaxNodes, "a trace has no more operators than a program");
  CheckImport(**archive, *graph);
}

void CheckArchive(absl::string_view bytes) {
  const FileInMemory file(bytes);
  const AllocationPeak peak;
  const absl::StatusOr<std::unique_ptr<Pt2Archive>> archive = Pt2Archive::Open(file.path());
  FuzzCheck(peak.bytes() <= kPerByte * static_cast<int64_t>(bytes.size()) + kBuffers,
            absl::StrCat("what an archive claims is not allocated: ", peak.bytes(), " bytes for ", bytes.size()));
  if (!archive.ok()) return CheckRefusal(archive.status(), "the archive");
  for (const auto& [name, tensor] : (*archive)->tensors()) {
    int64_t read = 0;
    const absl::Status status = (*archive)->Read(tensor, [&](const char*, int64_t count) {
      read += count;
      return absl::OkStatus();
    });
    if (!status.ok()) {
      FuzzCheck(absl::IsDataLoss(status), "what was opened can be read: " + status.ToString());
    } else {
      FuzzCheck(read == tensor.Elements() * SizeOf(tensor.dtype), "all of a tensor is read");
    }
  }
  CheckProgram(**archive);
}

// Deflated entries as well, as NumPy writes them.
void CheckZip(absl::string_view bytes) {
  const FileInMemory file(bytes);
  const auto input = ArchiveFile::Open(file.path());
  FuzzCheck(input.ok(), "a file in memory is opened");
  const auto zip = ZipReader::Open((*input)->whole(), {true, "a file of numpy.savez"});
  if (!zip.ok()) return CheckRefusal(zip.status(), "the zip");
  for (const ZipEntry& entry : zip->entries()) {
    FuzzCheck(zip->Find(entry.name) == &entry, "what is there is found by its name");
    const auto content = zip->ReadWhole(entry, 1 << 24);
    if (!content.ok()) {
      CheckRefusal(content.status(), "an entry");
    } else {
      FuzzCheck(static_cast<int64_t>(content->size()) == entry.bytes, "an entry has the bytes that it claims");
    }
  }
}

// "class ...", data.pkl and constants.pkl with kBetweenParts between them. Storages are called 0.
void CheckParts(absl::string_view bytes) {
  std::vector<std::string> parts = absl::StrSplit(bytes, absl::MaxSplits(kBetweenParts, 2));
  parts.resize(3);
  const std::string storage(64, '\1');
  CheckTrace(FileInMemory(ZipBytes({{"m/data.pkl", parts[1]},
                                    {"m/constants.pkl", parts[2]},
                                    {"m/code/__torch__.py", parts[0]},
                                    {"m/data/0", storage},
                                    {"m/constants/0", storage}}))
                 .path());
}

void CheckModules(absl::string_view pickle) {
  const AllocationPeak peak;
  const auto pickled = ReadPickle(pickle, "f", PickleForm::kModules);
  CheckPeak(peak, kPerByte * static_cast<int64_t>(pickle.size()) + kBuffers, "a pickle of modules");
  if (!pickled.ok()) return CheckRefusal(pickled.status(), "the pickle of modules");
  FuzzCheck(pickled->root < pickled->values.size(), "a pickle's value is there");
  for (const PickleValue& value : pickled->values) {
    for (const size_t item : value.items) FuzzCheck(item < pickled->values.size(), "what a value has in it is there");
  }
}

void CheckPickle(absl::string_view pickle) {
  CheckModules(pickle);
  const AllocationPeak peak;
  const auto tensors = ReadTensorPickle(pickle, "f");
  FuzzCheck(peak.bytes() <= kPerByte * static_cast<int64_t>(pickle.size()) + kBuffers,
            absl::StrCat("what a pickle claims is not allocated: ", peak.bytes(), " bytes for ", pickle.size()));
  if (!tensors.ok()) return CheckRefusal(tensors.status(), "the pickle");
  for (const StoredTensor& tensor : *tensors) {
    FuzzCheck(tensor.shape.size() == tensor.stride.size(), "a tensor has a stride for each extent");
  }
}

void Check(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\x80")) return CheckPickle(bytes);
  if (absl::StartsWith(bytes, "{")) {
    return CheckArchive(ZipBytes({{"m/archive_format", "pt2"}, {"m/models/model.json", std::string(bytes)}}));
  }
  if (absl::StartsWith(bytes, "class ")) {
    // The model is an object of the class Net in that text.
    const std::string begin("\x80\x02", 2);
    return CheckTrace(FileInMemory(ZipBytes({{"m/data.pkl", absl::StrCat(begin, "c__torch__\nNet\n)\x81}b.")},
                                             {"m/constants.pkl", absl::StrCat(begin, ").")},
                                             {"m/code/__torch__.py", std::string(bytes)}}))
                          .path());
  }
  if (absl::ConsumePrefix(&bytes, "trace\n")) return CheckParts(bytes);
  CheckArchive(bytes);
  CheckTrace(FileInMemory(bytes).path());
  CheckZip(bytes);
}

}  // namespace
}  // namespace adjoin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  adjoin::Check(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
