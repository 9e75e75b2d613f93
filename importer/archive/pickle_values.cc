#include "importer/archive/pickle_values.h"

#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/shown_name.h"

namespace adjoin {
namespace {

constexpr size_t kMaxFunctionName = 1024;  // each value of it has its own copy
constexpr size_t kMaxStorageName = 200;
constexpr size_t kMaxDims = 16;
// Together with the memo; a pickle of a byte per instruction makes no more values than it has bytes.
constexpr size_t kMaxValues = 1 << 20;

using Kind = PickleValue::Kind;
using Value = PickleValue;

struct TypeName {
  const char* storage;
  DType dtype;
};
constexpr TypeName kStorages[] = {
    {"torch FloatStorage", DType::kFloat32}, {"torch DoubleStorage", DType::kFloat64},
    {"torch HalfStorage", DType::kFloat16},  {"torch BFloat16Storage", DType::kBFloat16},
    {"torch LongStorage", DType::kInt64},    {"torch IntStorage", DType::kInt32},
    {"torch ByteStorage", DType::kUInt8},    {"torch BoolStorage", DType::kBool},
};
constexpr char kRebuildTensor[] = "torch._utils _rebuild_tensor_v2";
constexpr char kRebuildParameter[] = "torch._utils _rebuild_parameter";
// One that has attributes of its own, which PyTorch's compiler leaves on parameters that forward uses by themselves.
constexpr char kRebuildParameterWithState[] = "torch._utils _rebuild_parameter_with_state";
constexpr char kParameter[] = "torch.nn.parameter Parameter";
constexpr char kOrderedDict[] = "collections OrderedDict";
// Lists of one type, and values of a type that they do not show.
constexpr char kScriptList[] = "torch.jit._pickle build_", kScriptTag[] = "torch.jit._pickle restore_type_tag";

// "__torch__.net Net", and "__torch__ Net" of a class in the main program.
bool IsScriptedClass(absl::string_view name) {
  return absl::StartsWith(name, "__torch__.") || absl::StartsWith(name, "__torch__ ");
}

class Machine {
 public:
  Machine(absl::string_view pickle, std::string where, PickleForm form)
      : rest_(pickle), where_(std::move(where)), modules_(form == PickleForm::kModules) {}

  absl::StatusOr<PickledValues> Run() {
    while (!stopped_) {
      ADJOIN_ASSIGN_OR_RETURN(const absl::string_view code, Take(1));
      ADJOIN_RETURN_IF_ERROR(Step(static_cast<uint8_t>(code[0])));
      if (values_.size() > kMaxValues) return Refused("it has more values than any model's weights");
    }
    if (stack_.size() != 1) return Refused(modules_ ? "it is no object" : "it is no dict");
    return PickledValues{std::move(values_), stack_[0]};
  }

 private:
  absl::Status Refused(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": its pickle is not one of ",
                                                   modules_ ? "a traced model" : "tensors alone", ": ", what,
                                                   "; nothing in it was executed"));
  }

  absl::StatusOr<absl::string_view> Take(size_t bytes) {
    if (rest_.size() < bytes) return absl::DataLossError(absl::StrCat(where_, ": its pickle is cut off, or is none"));
    const absl::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  // A little endian number of up to 8 bytes, without a sign.
  absl::StatusOr<uint64_t> TakeNumber(size_t bytes) {
    ADJOIN_ASSIGN_OR_RETURN(const absl::string_view text, Take(bytes));
    uint64_t number = 0;
    memcpy(&number, text.data(), bytes);
    return number;
  }

  absl::StatusOr<std::string> TakeLine() {
    const size_t end = rest_.find('\n');
    if (end == absl::string_view::npos) return Take(rest_.size() + 1).status();
    const std::string line(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return line;
  }

  void Push(Value value) {
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
  }
  void PushInt(int64_t number) {
    Value value;
    value.kind = Kind::kInt;
    value.number = number;
    Push(std::move(value));
  }
  void PushText(Kind kind, std::string text) {
    Value value;
    value.kind = kind;
    value.text = std::move(text);
    Push(std::move(value));
  }

  absl::StatusOr<size_t> Pop() {
    if (stack_.empty()) return Refused("a value is missing");
    const size_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  // The values above the last mark, which goes, too.
  absl::StatusOr<std::vector<size_t>> PopToMark() {
    size_t begin = stack_.size();
    while (begin > 0 && values_[stack_[begin - 1]].kind != Kind::kMark) --begin;
    if (begin == 0) return Refused("a mark is missing");
    std::vector<size_t> items(stack_.begin() + static_cast<int64_t>(begin), stack_.end());
    stack_.resize(begin - 1);
    return items;
  }

  absl::Status PushTuple(size_t count) {
    Value tuple;
    tuple.kind = Kind::kTuple;
    if (stack_.size() < count) return Refused("a value is missing");
    tuple.items.assign(stack_.end() - static_cast<int64_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    Push(std::move(tuple));
    return absl::OkStatus();
  }

  absl::Status PutIntoDict(const std::vector<size_t>& items) {
    if (stack_.empty() || values_[stack_.back()].kind != Kind::kDict || items.size() % 2 != 0) {
      return Refused("values are put into what is no dict");
    }
    std::vector<size_t>& dict = values_[stack_.back()].items;
    dict.insert(dict.end(), items.begin(), items.end());
    return absl::OkStatus();
  }

  absl::Status Memorize(uint64_t index) {
    if (stack_.empty()) return Refused("a value is missing");
    memo_[index] = stack_.back();
    if (memo_.size() > kMaxValues) return Refused("it remembers too much");
    return absl::OkStatus();
  }
  absl::Status Recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Refused("it recalls what was not there");
    stack_.push_back(found->second);
    return stack_.size() > kMaxValues ? Refused("it has too many values") : absl::OkStatus();
  }

  absl::Status PushFunction(const std::string& name) {
    bool known = name == kRebuildTensor || name == kRebuildParameter || name == kRebuildParameterWithState ||
                 name == kParameter || name == kOrderedDict ||
                 (modules_ && (IsScriptedClass(name) || absl::StartsWith(name, kScriptList) || name == kScriptTag));
    for (const TypeName& storage : kStorages) known = known || name == storage.storage;
    if (!known || name.size() > kMaxFunctionName)
      return Refused(absl::StrCat("it names the function ", PrintableText(name, kMaxShownName)));
    PushText(Kind::kFunction, name);
    return absl::OkStatus();
  }

  absl::Status Step(uint8_t code);
  absl::Status StepOfNumbers(uint8_t code);
  absl::Status StepOfModules(uint8_t code);
  absl::Status PushStorage();
  absl::Status Call();
  absl::StatusOr<Value> RebuildTensor(const std::vector<size_t>& arguments) const;
  absl::StatusOr<std::vector<int64_t>> Numbers(size_t tuple) const;
  absl::Status PushObject();
  absl::Status Build();
  absl::Status PutIntoList(const std::vector<size_t>& items);

  absl::string_view rest_;
  const std::string where_;
  const bool modules_;
  std::vector<Value> values_;
  std::vector<size_t> stack_;
  std::map<uint64_t, size_t> memo_;
  bool stopped_ = false;
};

absl::Status Machine::StepOfNumbers(uint8_t code) {
  switch (code) {
    case 'K':    // BININT1
    case 'M': {  // BININT2
      ADJOIN_ASSIGN_OR_RETURN(const uint64_t number, TakeNumber(code == 'K' ? 1 : 2));
      PushInt(static_cast<int64_t>(number));
      return absl::OkStatus();
    }
    case 'J': {  // BININT, with a sign
      ADJOIN_ASSIGN_OR_RETURN(const uint64_t number, TakeNumber(4));
      PushInt(static_cast<int32_t>(static_cast<uint32_t>(number)));
      return absl::OkStatus();
    }
    case 0x8a: {  // LONG1: the number of bytes, two's complement
      ADJOIN_ASSIGN_OR_RETURN(const uint64_t bytes, TakeNumber(1));
      if (bytes > 8) return Refused("it has a number of more than 64 bits");
      ADJOIN_ASSIGN_OR_RETURN(uint64_t number, TakeNumber(bytes));
      const int missing = static_cast<int>(64 - 8 * bytes);
      if (bytes > 0 && bytes < 8) number = static_cast<uint64_t>(static_cast<int64_t>(number << missing) >> missing);
      PushInt(static_cast<int64_t>(number));
      return absl::OkStatus();
    }
    default: return Refused(absl::StrCat("it has the instruction 0x", absl::Hex(code, absl::kZeroPad2)));
  }
}

absl::Status Machine::StepOfModules(uint8_t code) {
  switch (code) {
    case ']': PushText(Kind::kList, ""); return absl::OkStatus();
    case 'a': {
      ADJOIN_ASSIGN_OR_RETURN(const size_t item, Pop());
      return PutIntoList({item});
    }
    case 'e': {
      ADJOIN_ASSIGN_OR_RETURN(const std::vector<size_t> items, PopToMark());
      return PutIntoList(items);
    }
    case 'G': {  // big endian
      ADJOIN_ASSIGN_OR_RETURN(const uint64_t number, TakeNumber(8));
      const uint64_t bits = __builtin_bswap64(number);
      Value value;
      value.kind = Kind::kFloat;
      memcpy(&value.real, &bits, sizeof(value.real));
      Push(std::move(value));
      return absl::OkStatus();
    }
    default: return PushObject();
  }
}

absl::Status Machine::PutIntoList(const std::vector<size_t>& items) {
  if (stack_.empty() || values_[stack_.back()].kind != Kind::kList) {
    return Refused("values are put into what is no list");
  }
  std::vector<size_t>& list = values_[stack_.back()].items;
  list.insert(list.end(), items.begin(), items.end());
  return absl::OkStatus();
}

// An object without attributes; Build gives it them.
absl::Status Machine::PushObject() {
  ADJOIN_ASSIGN_OR_RETURN(const size_t arguments, Pop());
  ADJOIN_ASSIGN_OR_RETURN(const size_t type, Pop());
  if (values_[type].kind != Kind::kFunction || !IsScriptedClass(values_[type].text) ||
      values_[arguments].kind != Kind::kTuple || !values_[arguments].items.empty()) {
    return Refused("it makes an object of no class below __torch__");
  }
  PushText(Kind::kObject, values_[type].text);
  return absl::OkStatus();
}

// A dict's own attributes (_metadata of an OrderedDict) are left out.
absl::Status Machine::Build() {
  ADJOIN_ASSIGN_OR_RETURN(const size_t state, Pop());
  if (!modules_) return absl::OkStatus();
  if (stack_.empty()) return Refused("a value is missing");
  Value& built = values_[stack_.back()];
  if (built.kind != Kind::kObject) return absl::OkStatus();
  if (values_[state].kind != Kind::kDict) return Refused("an object's attributes are no dict");
  // Moved, so that no pickle makes more items than it has bytes.
  built.items = std::move(values_[state].items);
  return absl::OkStatus();
}

absl::Status Machine::Step(uint8_t code) {
  switch (code) {
    case 0x80:  // PROTO
    case 0x95:  // FRAME
      return Take(code == 0x80 ? 1 : 8).status();
    case '.':  // STOP
      stopped_ = true;
      return absl::OkStatus();
    case '(': PushText(Kind::kMark, ""); return absl::OkStatus();
    case '}': PushText(Kind::kDict, ""); return absl::OkStatus();
    case 'N': PushText(Kind::kNone, ""); return absl::OkStatus();
    case 0x88:    // NEWTRUE
    case 0x89: {  // NEWFALSE
      PushInt(code == 0x88);
      values_.back().kind = Kind::kBool;
      return absl::OkStatus();
    }
    case 'X':     // BINUNICODE
    case 0x8c: {  // SHORT_BINUNICODE
      ADJOIN_ASSIGN_OR_RETURN(const uint64_t bytes, TakeNumber(code == 'X' ? 4 : 1));
      ADJOIN_ASSIGN_OR_RETURN(const absl::string_view text, Take(bytes));
      PushText(Kind::kText, std::string(text));
      return absl::OkStatus();
    }
    case ')': return PushTuple(0);
    case 0x85: return PushTuple(1);
    case 0x86: return PushTuple(2);
    case 0x87: return PushTuple(3);
    case 't': {  // TUPLE
      ADJOIN_ASSIGN_OR_RETURN(const std::vector<size_t> items, PopToMark());
      stack_.insert(stack_.end(), items.begin(), items.end());
      return PushTuple(items.size());
    }
    case 's': {  // SETITEM
      ADJOIN_ASSIGN_OR_RETURN(const size_t value, Pop());
      ADJOIN_ASSIGN_OR_RETURN(const size_t key, Pop());
      return PutIntoDict({key, value});
    }
    case 'u': {  // SETITEMS
      ADJOIN_ASSIGN_OR_RETURN(const std::vector<size_t> items, PopToMark());
      return PutIntoDict(items);
    }
    case 'b': return Build();
    case 'q':    // BINPUT
    case 'r': {  // LONG_BINPUT
      ADJOIN_ASSIGN_OR_RETURN(const uint64_t index, TakeNumber(code == 'q' ? 1 : 4));
      return Memorize(index);
    }
    case 0x94: return Memorize(memo_.size());  // MEMOIZE
    case 'h':                                  // BINGET
    case 'j': {                                // LONG_BINGET
      ADJOIN_ASSIGN_OR_RETURN(const uint64_t index, TakeNumber(code == 'h' ? 1 : 4));
      return Recall(index);
    }
    case 'c': {  // GLOBAL
      ADJOIN_ASSIGN_OR_RETURN(const std::string module, TakeLine());
      ADJOIN_ASSIGN_OR_RETURN(const std::string name, TakeLine());
      return PushFunction(absl::StrCat(module, " ", name));
    }
    case 0x93: {  // STACK_GLOBAL
      ADJOIN_ASSIGN_OR_RETURN(const size_t name, Pop());
      ADJOIN_ASSIGN_OR_RETURN(const size_t module, Pop());
      return PushFunction(absl::StrCat(values_[module].text, " ", values_[name].text));
    }
    case 'Q': return PushStorage();  // BINPERSID
    case 'R': return Call();         // REDUCE
    case ']':                        // EMPTY_LIST
    case 'a':                        // APPEND
    case 'e':                        // APPENDS
    case 'G':                        // BINFLOAT
    case 0x81:                       // NEWOBJ
      if (modules_) return StepOfModules(code);
      return StepOfNumbers(code);
    default: return StepOfNumbers(code);
  }
}

// ("storage", its type, its entry, device, how many elements)
absl::Status Machine::PushStorage() {
  ADJOIN_ASSIGN_OR_RETURN(const size_t top, Pop());
  const std::vector<size_t>& items = values_[top].items;
  if (values_[top].kind != Kind::kTuple || items.size() != 5 || values_[items[0]].text != "storage" ||
      values_[items[1]].kind != Kind::kFunction || values_[items[2]].kind != Kind::kText) {
    return Refused("it names something kept elsewhere that is no storage");
  }
  if (values_[items[2]].text.size() > kMaxStorageName) return Refused("a storage has a name that is too long");
  for (size_t i = 0; i < std::size(kStorages); ++i) {
    if (values_[items[1]].text != kStorages[i].storage) continue;
    Value storage;
    storage.kind = Kind::kStorage;
    storage.number = static_cast<int64_t>(i);
    storage.text = values_[items[2]].text;
    Push(std::move(storage));
    return absl::OkStatus();
  }
  return Refused("a storage has no type");
}

absl::StatusOr<std::vector<int64_t>> Machine::Numbers(size_t tuple) const {
  const Value& value = values_[tuple];
  if (value.kind != Kind::kTuple || value.items.size() > kMaxDims) return Refused("a tensor has no shape");
  std::vector<int64_t> numbers;
  for (size_t item : value.items) {
    if (values_[item].kind != Kind::kInt) return Refused("a tensor has a shape that is not of whole numbers");
    numbers.push_back(values_[item].number);
  }
  return numbers;
}

absl::StatusOr<Value> Machine::RebuildTensor(const std::vector<size_t>& arguments) const {
  if (arguments.size() < 4 || values_[arguments[0]].kind != Kind::kStorage ||
      values_[arguments[1]].kind != Kind::kInt) {
    return Refused("a tensor is not built from a storage");
  }
  Value value;
  value.kind = Kind::kTensor;
  value.tensor.storage = values_[arguments[0]].text;
  value.tensor.dtype = kStorages[values_[arguments[0]].number].dtype;
  value.tensor.offset = values_[arguments[1]].number;
  value.tensor.requires_grad =
      arguments.size() > 4 && values_[arguments[4]].kind == Kind::kBool && values_[arguments[4]].number != 0;
  ADJOIN_ASSIGN_OR_RETURN(value.tensor.shape, Numbers(arguments[2]));
  ADJOIN_ASSIGN_OR_RETURN(value.tensor.stride, Numbers(arguments[3]));
  if (value.tensor.shape.size() != value.tensor.stride.size())
    return Refused("a tensor's strides are not as its shape");
  return value;
}

absl::Status Machine::Call() {
  ADJOIN_ASSIGN_OR_RETURN(const size_t arguments, Pop());
  ADJOIN_ASSIGN_OR_RETURN(const size_t callee, Pop());
  if (values_[callee].kind != Kind::kFunction || values_[arguments].kind != Kind::kTuple) {
    return Refused("it calls what is no function");
  }
  const std::string& name = values_[callee].text;
  const std::vector<size_t>& items = values_[arguments].items;
  if (name == kOrderedDict && items.empty()) {
    PushText(Kind::kDict, "");
    return absl::OkStatus();
  }
  if (name == kRebuildTensor) {
    ADJOIN_ASSIGN_OR_RETURN(Value tensor, RebuildTensor(items));
    Push(std::move(tensor));
    return absl::OkStatus();
  }
  if ((name == kRebuildParameter || name == kRebuildParameterWithState || name == kParameter) && !items.empty() &&
      values_[items[0]].kind == Kind::kTensor) {
    stack_.push_back(items[0]);
    return absl::OkStatus();
  }
  const bool tagged = name == kScriptTag && items.size() == 2;
  if (tagged || (absl::StartsWith(name, kScriptList) && items.size() == 1 && values_[items[0]].kind == Kind::kList)) {
    stack_.push_back(items[0]);
    return absl::OkStatus();
  }
  return Refused(absl::StrCat("it calls ", PrintableText(name, kMaxShownName), " with other arguments than PyTorch"));
}

}  // namespace

absl::StatusOr<PickledValues> ReadPickle(absl::string_view pickle, const std::string& where, PickleForm form) {
  return Machine(pickle, where, form).Run();
}

}  // namespace adjoin
