// Programs of a few operators over x, written in tests, and the layers that they become as text.
//
//   Program program({2, 3});
//   program.Node("relu.default", {{"self", "x"}}, "y", {2, 3});
//   Text(program.Import());                                          // "relu: relu(x)"
#ifndef ADJOIN_IMPORTER_TESTING_MADE_PROGRAM_H_
#define ADJOIN_IMPORTER_TESTING_MADE_PROGRAM_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "importer/archive/pt2_archive.h"
#include "importer/graph/op_graph.h"
#include "importer/import_model.h"

namespace adjoin {

using nlohmann::json;

// A program over x, a tensor of float32.
class Program {
 public:
  explicit Program(const std::vector<int64_t>& shape) {
    Tensor("x", shape);
    inputs_.push_back({{"user_input", {{"arg", {{"as_tensor", {{"name", "x"}}}}}}}});
  }
  void Tensor(const std::string& name, const std::vector<int64_t>& shape, int dtype = 7, bool gradient = false) {
    json sizes = json::array();
    for (int64_t extent : shape) sizes.push_back({{"as_int", extent}});
    tensors_[name] = {{"dtype", static_cast<unsigned>(dtype)}, {"sizes", sizes}, {"requires_grad", gradient}};
  }
  void Parameter(const std::string& value, const std::string& name, const std::vector<int64_t>& shape,
                 bool gradient = true) {
    Tensor(value, shape, 7, gradient);
    inputs_.push_back({{"parameter", {{"arg", {{"name", value}}}, {"parameter_name", name}}}});
  }
  void Buffer(const std::string& value, const std::string& name, const std::vector<int64_t>& shape) {
    Tensor(value, shape);
    inputs_.push_back({{"buffer", {{"arg", {{"name", value}}}, {"buffer_name", name}, {"persistent", true}}}});
  }
  // Arguments: pairs of a name and a value as JSON; a text is a tensor.
  void Node(const std::string& op, const std::vector<std::pair<std::string, json>>& arguments,
            const std::string& output, const std::vector<int64_t>& shape, const std::string& stack = "",
            int dtype = 7) {
    json inputs = json::array();
    for (const auto& [name, value] : arguments) {
      json arg = value.is_string()           ? json{{"as_tensor", {{"name", value}}}}
                 : value.is_boolean()        ? json{{"as_bool", value}}
                 : value.is_number_integer() ? json{{"as_int", value}}
                 : value.is_number()         ? json{{"as_float", value}}
                 : value.is_array()          ? json{{"as_ints", value}}
                                             : value;
      inputs.push_back({{"name", name}, {"arg", arg}});
    }
    nodes_.push_back({{"target", absl::StrCat("torch.ops.aten.", op)},
                      {"inputs", inputs},
                      {"outputs", {{{"as_tensor", {{"name", output}}}}}},
                      {"metadata", {{"nn_module_stack", stack}}}});
    Tensor(output, shape, dtype);
    result_ = output;
  }
  absl::StatusOr<ImportedModel> Import() const {
    const json program = {
        {"schema_version", {{"major", 8}}},
        {"graph_module",
         {{"graph", {{"tensor_values", tensors_}, {"nodes", nodes_}}},
          {"signature",
           {{"input_specs", inputs_},
            {"output_specs", {{{"user_output", {{"arg", {{"as_tensor", {{"name", result_}}}}}}}}}}}}}}};
    auto archive = Pt2Archive::Open("importer/testdata/lenet.pt2");
    if (!archive.ok()) return archive.status();
    auto graph = ReadOpGraph(program, "made.pt2");
    if (!graph.ok()) return graph.status();
    return ImportModel(**archive, *graph, {});
  }
  std::string Error() const { return std::string(Import().status().message()); }

 private:
  json tensors_ = json::object(), nodes_ = json::array(), inputs_ = json::array();
  std::string result_;
};

// "neg(x) add(neg)" of the layers.
inline std::string Text(const absl::StatusOr<ImportedModel>& model) {
  if (!model.ok()) return std::string(model.status().message());
  std::vector<std::string> layers;
  for (const Layer& layer : model->layers) {
    std::string kind = layer.has_activation()
                           ? absl::StrCat(layer.activation().fn(), layer.activation().arg().empty() ? "" : " ",
                                          absl::StrJoin(layer.activation().arg(), ","))
                           : Layer::descriptor()->FindFieldByNumber(layer.op_case())->name();
    layers.push_back(absl::StrCat(layer.name(), ": ", kind, "(", absl::StrJoin(layer.input(), ","), ")"));
  }
  return absl::StrJoin(layers, "; ");
}

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TESTING_MADE_PROGRAM_H_
