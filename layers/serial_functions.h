// What each kind of layer computes, in plain torch::nn::functional on whole tensors: the serial side of a comparison.
// Made from the job's text and PyTorch's definitions alone; nothing here knows of layouts, rules, or the kernels that
// ranks run.
//
//   SerialFunctions functions = BuiltinSerialFunctions();
//   functions.Register("scale", [](SerialCall& call) {            // a user's own Custom.type
//     return call.input() * call.Parameter("weight", {call.input().size(1)}, 1.0).reshape({1, -1, 1, 1});
//   });
//
// A function throws c10::Error where LibTorch does, and where the job asks for what the layer cannot do.
#ifndef ADJOIN_LAYERS_SERIAL_FUNCTIONS_H_
#define ADJOIN_LAYERS_SERIAL_FUNCTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "primitives/tape.h"
#include "proto/job.pb.h"

namespace adjoin {

// The parameters and buffers of a serial model, by their names in PyTorch's state_dict. They come to be when a layer
// first asks for them, since only then their shapes are known.
class SerialParameters {
 public:
  explicit SerialParameters(at::Generator generator) : generator_(std::move(generator)) {}

  struct Entry {
    std::string name;
    at::Tensor tensor;   // a leaf
    at::Tensor initial;  // a copy from before the first step
    bool trained = true;
  };
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their making
  bool Has(const std::string& name) const { return index_of_.count(name) > 0; }
  const at::Tensor& Get(const std::string& name) const { return entries_[index_of_.at(name)].tensor; }
  void Add(const std::string& name, at::Tensor tensor, bool trained);
  // Uniform in [centre - spread, centre + spread), float64.
  at::Tensor Draw(at::IntArrayRef shape, double centre, double spread);

 private:
  at::Generator generator_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> index_of_;
};

// What a layer's random numbers are a function of, beside the element's place.
struct SerialPlace {
  uint64_t seed = 0;  // the job's
  int64_t step = 0;   // from 0
  int layer = 0;      // in JobSpec.layer
};

// One layer's evaluation.
class SerialCall {
 public:
  SerialCall(const Layer& spec, std::vector<at::Tensor> inputs, SerialParameters* parameters, Tape* tape,
             SerialPlace place = {})
      : spec_(spec), inputs_(std::move(inputs)), parameters_(parameters), tape_(tape), place_(place) {}

  const Layer& spec() const { return spec_; }
  const std::vector<at::Tensor>& inputs() const { return inputs_; }
  const at::Tensor& input() const { return inputs_[0]; }
  const SerialPlace& place() const { return place_; }

  // The parameter "<layer>.<role>"; drawn where this is its first use, around `centre`, within `spread` of it. Trained,
  // unless the layer is frozen.
  at::Tensor Parameter(const std::string& role, const std::vector<int64_t>& shape, double spread, double centre = 0);
  // State that the layer keeps itself, as running statistics. A function may change it in place.
  at::Tensor Buffer(const std::string& role, const std::vector<int64_t>& shape, double spread, double centre);

  // A whole number that the layer keeps, as how often it was called; 0 at first.
  at::Tensor Counter(const std::string& role);

  // For a layer that runs in the ranks' own code: where its parameters go, and the tape of this step.
  SerialParameters& parameters() { return *parameters_; }
  Tape& tape() { return *tape_; }

 private:
  const Layer& spec_;
  std::vector<at::Tensor> inputs_;
  SerialParameters* parameters_;
  Tape* tape_;
  SerialPlace place_;
};

using SerialFunction = std::function<at::Tensor(SerialCall&)>;

// By kind: the name of Layer.op's field ("conv"), or Custom.type. A value.
class SerialFunctions {
 public:
  // Replaces the function of a kind that is registered already.
  void Register(const std::string& kind, SerialFunction function) { functions_[kind] = std::move(function); }
  // Null where there is none.
  const SerialFunction* Find(const std::string& kind) const;
  // The registered kinds, sorted.
  std::vector<std::string> Kinds() const;

 private:
  std::map<std::string, SerialFunction> functions_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_SERIAL_FUNCTIONS_H_
