// A model that torch.jit.save wrote: its modules, their tensors, and the text of their methods.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ScriptArchive> archive, ScriptArchive::Open("model.pt"));
//   const ScriptModule& model = archive->modules().at(archive->root());
//   archive->values()[model.attributes.at("conv1")];             // an object, also in modules()
//   ADJOIN_ASSIGN_OR_RETURN(const ScriptClass* type, archive->FindClass(model.class_name));
//
// Tensors have their names in state_dict; constants of the methods are called CONSTANTS.c0 and so on. A tensor that
// several modules have is there once, by its first name. Source: torch/csrc/jit/docs/serialization.md of PyTorch.
// One thread.
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_ARCHIVE_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "importer/archive/model_archive.h"
#include "importer/archive/pickle_values.h"
#include "importer/archive/zip_reader.h"
#include "importer/torchscript/script_syntax.h"

namespace adjoin {

struct ScriptModule {
  std::string path;                          // "layer1.0.conv1"; "" of the model itself
  std::string class_name;                    // "__torch__.torch.nn.modules.conv.___torch_mangle_8.Conv2d"
  std::string type;                          // "torch.nn.modules.conv.Conv2d"
  std::map<std::string, size_t> attributes;  // values
};

class ScriptArchive : public ModelArchive {
 public:
  static constexpr int64_t kMaxCodeBytes = 8 << 20;  // of all files that are read
  static constexpr size_t kMaxScriptModules = 20000;
  static constexpr int kMaxModuleDepth = 60;

  // True for an archive of torch.jit.save.
  static bool Is(const ZipReader& zip);
  // Errors: as ArchiveFile::Open, ZipReader::Open and ReadPickle; kInvalidArgument (big endian); kDataLoss (a class
  // without its text, modules nested more deeply than kMaxModuleDepth, a tensor that does not lie in its storage).
  static absl::StatusOr<std::unique_ptr<ScriptArchive>> Open(const std::string& path);

  const std::vector<PickleValue>& values() const { return model_.values; }
  const std::map<size_t, ScriptModule>& modules() const { return modules_; }  // by their object's index
  size_t root() const { return model_.root; }
  // Names of tensors of values().
  const std::map<size_t, std::string>& names() const { return names_; }
  // Constants of the methods, tensors among them by the name CONSTANTS.cN. Null where there is none.
  const PickleValue* Constant(size_t index) const;

  // By names of tensors.
  const std::set<std::string>& buffers() const { return buffers_; }        // also attributes and constants
  const std::set<std::string>& attributes() const { return attributes_; }  // not in state_dict, constants too
  const std::set<std::string>& without_gradient() const { return without_gradient_; }

  // "__torch__.net.Net". Errors: kDataLoss: no such class or function; as ParseScript.
  absl::StatusOr<const ScriptClass*> FindClass(const std::string& name) const;
  absl::StatusOr<const ScriptMethod*> FindFunction(const std::string& name) const;
  // "model.pt: code/__torch__/net.py", for messages.
  std::string FileOf(const std::string& name) const;

 private:
  explicit ScriptArchive(std::unique_ptr<ArchiveFile> file)
      : ModelArchive(std::move(file), "the archive as torch.jit.save wrote it") {}
  absl::Status Load();
  absl::Status CheckOrder() const;
  absl::StatusOr<PickledValues> ReadValues(const std::string& name) const;
  absl::Status AddModule(size_t object, const std::string& path, int depth);
  absl::Status AddTensor(size_t value, const std::string& name, const std::string& storages);
  absl::Status AddConstants();
  absl::StatusOr<const ScriptFile*> FindFile(const std::string& module) const;

  std::optional<ZipReader> zip_;
  std::string folder_;  // "model/"
  PickledValues model_, constants_;
  std::map<size_t, ScriptModule> modules_;
  std::map<size_t, std::string> names_;
  std::map<std::string, std::string> name_of_view_;  // by storage, offset and shape
  std::set<std::string> buffers_, attributes_, without_gradient_;
  mutable std::map<std::string, ScriptFile> files_;
  mutable int64_t code_bytes_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_ARCHIVE_H_
