#include "cli/import.h"

#include <sys/stat.h>

#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/new_file.h"
#include "base/status_macros.h"
#include "importer/import_model.h"
#include "importer/job_text.h"
#include "importer/model_file.h"
#include "importer/torchscript/script_inliner.h"
#include "planner/spec/spec_include.h"

namespace adjoin {
namespace {

constexpr char kScript[] = R"(import torch

from my_model import MyModel               # your model ...
model = MyModel()
model.load_state_dict(torch.load("my_weights.pt", weights_only=True))
example = torch.randn(2, 1, 64, 64)        # ... and a batch of two of its input, of the extents that you train with

model.eval()
export = getattr(torch.export, "export_for_training", torch.export.export)
torch.export.save(export(model, (example,)), "model.pt2")
)";

// "lenet" of "models/lenet.pt2".
std::string NameOf(const std::string& path) {
  std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  name = name.substr(0, name.rfind('.'));
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') c = '_';
  }
  return name.empty() ? "model" : name;
}

absl::Status WithForce(const absl::Status& status) {
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(absl::StrCat(std::string(status.message()), "; --force writes over it"));
}

// Weights have a name of their own until they are whole, and are large: what is in the way is said before.
absl::Status CheckFree(const std::string& path, bool force) {
  struct stat info;
  if (force || path.empty() || lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  return WithForce(absl::AlreadyExistsError(absl::StrCat(path, " is there already")));
}

// A file that is written must be neither the other one nor the model.
absl::Status CheckDifferent(const ImportCommand& command) {
  const auto same = [](const std::string& a, const std::string& b) {
    if (a.empty() || b.empty()) return false;
    struct stat first, second;
    if (stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0) {
      return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    }
    return std::filesystem::path(a).lexically_normal() == std::filesystem::path(b).lexically_normal();
  };
  if (same(command.job, command.weights)) return absl::InvalidArgumentError("-o and --weights name the same file");
  if (same(command.job, command.model)) return absl::InvalidArgumentError("-o names the MODEL itself");
  if (same(command.weights, command.model)) return absl::InvalidArgumentError("--weights names the MODEL itself");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunImport(const ImportCommand& command) {
  if (command.script) {
    std::cout << kScript << std::flush;
    return 0;
  }
  if (command.model.empty()) {
    return absl::InvalidArgumentError(
        "MODEL is missing, an archive of torch.export.save or torch.jit.save; --script prints how to write it");
  }
  ADJOIN_RETURN_IF_ERROR(CheckDifferent(command));
  std::optional<LoadedSpec> frame;
  if (!command.frame.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(frame, LoadSpec(command.frame, {}));
  }
  ADJOIN_RETURN_IF_ERROR(CheckFree(command.weights, command.force));
  std::vector<ExampleInput> examples;
  for (const std::string& text : command.examples) {
    ADJOIN_ASSIGN_OR_RETURN(ExampleInput example, ParseExample(text));
    examples.push_back(std::move(example));
  }
  ADJOIN_ASSIGN_OR_RETURN(const ModelFile opened, OpenModelFile(command.model, examples));
  ImportOptions options;
  options.inputs = command.inputs;
  options.outline = command.outline;
  ADJOIN_ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(*opened.archive, opened.graph, options));
  JobTextOptions text_options;
  text_options.name = NameOf(command.model);
  text_options.archive = command.model;
  text_options.weights =
      command.weights.substr(command.weights.rfind('/') == std::string::npos ? 0 : command.weights.rfind('/') + 1);
  if (frame.has_value()) text_options.frame = &frame->parsed.spec;
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, JobText(model, text_options));
  std::optional<NewFile> file;
  if (!command.job.empty()) {
    absl::StatusOr<NewFile> begun =
        NewFile::Begin(command.job, command.force ? NewFile::Over::kRegularFile : NewFile::Over::kNothing);
    if (!begun.ok()) return WithForce(begun.status());
    ADJOIN_RETURN_IF_ERROR(begun->Write(text));
    file.emplace(*std::move(begun));
  }
  if (!command.weights.empty()) ADJOIN_RETURN_IF_ERROR(WriteWeights(*opened.archive, model, command.weights));
  if (!file.has_value()) {
    std::cout << text << std::flush;
    return 0;
  }
  ADJOIN_RETURN_IF_ERROR(WithForce(file->Finish()));
  std::cout << command.job << ": " << model.layers.size() << " layers, " << model.weights.size()
            << " tensors of weights" << (model.notes.empty() ? "" : ", an outline: NOT IMPORTED tells what is missing")
            << std::endl;
  return 0;
}

}  // namespace adjoin
