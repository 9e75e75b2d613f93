#include "tests/attack/hostile_calls.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/coordinator.pb.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::Reflection;
using google::protobuf::ServiceDescriptor;

using Path = std::vector<const FieldDescriptor*>;

constexpr int kMostLevels = 5;
constexpr size_t kMostBytes = kMaxMessageBytes + (kMaxMessageBytes >> 2);  // of one request

bool IsText(const FieldDescriptor& field) { return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING; }

// All fields of text or bytes, and all repeated ones, with the way to them.
void FindFields(const Descriptor& message, const Path& above, std::vector<Path>* found) {
  if (above.size() == kMostLevels) return;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (field.name() == "header") continue;
    Path path = above;
    path.push_back(&field);
    if (IsText(field) || field.is_repeated()) found->push_back(path);
    if (field.message_type() != nullptr && !field.is_map()) FindFields(*field.message_type(), path, found);
  }
}

std::string NameOf(const Path& path) {
  std::string name;
  for (const FieldDescriptor* field : path) absl::StrAppend(&name, name.empty() ? "" : ".", field->name());
  return name;
}

// Adds an element, or sets the field.
void Put(Message& message, const FieldDescriptor& field, const std::string& text) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      many ? reflection.AddString(&message, &field, text) : reflection.SetString(&message, &field, text);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      many ? reflection.AddMessage(&message, &field) : reflection.MutableMessage(&message, &field);
      break;
    case FieldDescriptor::CPPTYPE_ENUM: reflection.AddEnumValue(&message, &field, 1); break;
    case FieldDescriptor::CPPTYPE_BOOL: reflection.AddBool(&message, &field, true); break;
    case FieldDescriptor::CPPTYPE_DOUBLE: reflection.AddDouble(&message, &field, 1); break;
    case FieldDescriptor::CPPTYPE_FLOAT: reflection.AddFloat(&message, &field, 1); break;
    case FieldDescriptor::CPPTYPE_INT32: reflection.AddInt32(&message, &field, 1); break;
    case FieldDescriptor::CPPTYPE_INT64: reflection.AddInt64(&message, &field, 1); break;
    case FieldDescriptor::CPPTYPE_UINT32: reflection.AddUInt32(&message, &field, 1); break;
    case FieldDescriptor::CPPTYPE_UINT64: reflection.AddUInt64(&message, &field, 1); break;
  }
}

// The message that has the path's last field.
Message& Parent(Message& root, const Path& path) {
  Message* at = &root;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const Reflection& reflection = *at->GetReflection();
    at = path[i]->is_repeated() ? reflection.AddMessage(at, path[i]) : reflection.MutableMessage(at, path[i]);
  }
  return *at;
}

HostileCall MakeCall(const MethodDescriptor& method, const Message& request, std::string what) {
  HostileCall call;
  call.method = PathOf(method);
  call.bytes = request.SerializePartialAsString();
  call.what = absl::StrCat(method.name(), ": ", what);
  return call;
}

// Calls `make(method, path)` for fields of each method that are chosen at random.
template <typename Make>
void ForSomeFields(std::mt19937& random, int fields_per_method, const Make& make) {
  for (const MethodDescriptor* method : AllMethods()) {
    std::vector<Path> fields;
    FindFields(*method->input_type(), {}, &fields);
    std::shuffle(fields.begin(), fields.end(), random);
    if (fields.size() > static_cast<size_t>(fields_per_method)) fields.resize(fields_per_method);
    for (const Path& path : fields) make(*method, path);
  }
}

}  // namespace

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  const auto* file = SubmitRequest::descriptor()->file();
  for (int s = 0; s < file->service_count(); ++s) {
    for (int m = 0; m < file->service(s)->method_count(); ++m) methods.push_back(file->service(s)->method(m));
  }
  return methods;
}

std::unique_ptr<Message> NewRequest(const MethodDescriptor& method) {
  const Message* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type());
  std::unique_ptr<Message> request(prototype->New());
  const FieldDescriptor* header = method.input_type()->FindFieldByName("header");
  request->GetReflection()->MutableMessage(request.get(), header)->CopyFrom(MakeHeader());
  return request;
}

std::string PathOf(const MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

std::vector<HostileCall> OversizedCalls(std::mt19937& random, int fields_per_method) {
  constexpr size_t kLimits[] = {kMaxNameBytes, kMaxPathBytes, kMaxReportBytes, kMaxArtifacts, size_t{1} << 20};
  std::vector<HostileCall> calls;
  ForSomeFields(random, fields_per_method, [&](const MethodDescriptor& method, const Path& path) {
    const size_t limit = kLimits[random() % std::size(kLimits)];
    const size_t sizes[] = {limit - 1, limit, limit + 1, limit * 100};
    const size_t size = std::min(sizes[random() % std::size(sizes)], kMostBytes);
    const FieldDescriptor& field = *path.back();
    std::unique_ptr<Message> request = NewRequest(method);
    Message& parent = Parent(*request, path);
    if (field.is_repeated()) {
      const size_t count = std::min<size_t>(size, 1'000'000);
      for (size_t i = 0; i < count; ++i) Put(parent, field, "x");
      calls.push_back(MakeCall(method, *request, absl::StrCat(count, " times ", NameOf(path))));
    } else {
      Put(parent, field, std::string(size, 'x'));
      calls.push_back(MakeCall(method, *request, absl::StrCat(NameOf(path), " of ", size, " bytes")));
    }
  });
  return calls;
}

std::vector<HostileCall> IllEncodedCalls(std::mt19937& random, int fields_per_method) {
  const std::string kTexts[] = {"\xff\xfe",
                                "caf\xe9",
                                "\xed\xa0\x80",
                                "\xf8\x88\x80\x80\x80",
                                "\x1b[2J\x1b]0;x\x07",
                                "a\nINFO forged",
                                std::string("a\0b", 3),
                                "\xe2\x80\xae"
                                "abc",
                                "../../etc",
                                "\r"};
  std::vector<HostileCall> calls;
  ForSomeFields(random, fields_per_method, [&](const MethodDescriptor& method, const Path& path) {
    if (!IsText(*path.back())) return;
    std::unique_ptr<Message> request = NewRequest(method);
    Put(Parent(*request, path), *path.back(), kTexts[random() % std::size(kTexts)]);
    calls.push_back(MakeCall(method, *request, absl::StrCat("no text in ", NameOf(path))));
  });
  for (const MethodDescriptor* method : AllMethods()) {
    HostileCall call = MakeCall(*method, *NewRequest(*method), "random bytes");
    if (random() % 2 == 0) call.bytes.clear();  // also without a header
    for (uint32_t left = random() % 300; left > 0; --left) call.bytes.push_back(static_cast<char>(random()));
    calls.push_back(std::move(call));
  }
  return calls;
}

grpc::Status Send(const std::shared_ptr<grpc::Channel>& channel, const HostileCall& call, Deadline deadline) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline.Remaining()));
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto stream = stub.PrepareCall(&context, call.method, &queue);
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(call.bytes);
  const grpc::ByteBuffer request(&slice, 1);
  if (ok) {
    stream->Write(request, grpc::WriteOptions().set_last_message(), nullptr);
    queue.Next(&tag, &ok);
  }
  while (ok) {
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
  }
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status;
}

}  // namespace adjoin
