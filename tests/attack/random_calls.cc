#include "tests/attack/random_calls.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/coordinator.pb.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "tests/fault/fake_jobs.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;

constexpr int kPadding = 2000;             // a field that no message has
constexpr size_t kPaddingOverhead = 6;     // bytes of its tag, and of a length from 2^21 to 2^28
constexpr uint32_t kBetweenLargest = 150;  // calls: one in so many is as large as may be
constexpr absl::Duration kLeftFor = absl::Seconds(30);
constexpr absl::Duration kLargestLimit = absl::Seconds(20);

// Methods that tell, and change nothing.
bool OnlyReads(const MethodDescriptor& method) {
  static const char* const kReading[] = {"ListJobs", "DescribeJob",    "ReadEvents",     "FollowJob",
                                         "ReadLogs", "GetArtifact",    "ListTokens",     "ReadRates",
                                         "Connect",  "UploadArtifact", "ReadAuthorities"};
  return std::find(std::begin(kReading), std::end(kReading), method.name()) != std::end(kReading);
}

const FieldDescriptor* TextField(const google::protobuf::Message& message, const std::string& name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  const bool is_text = field != nullptr && field->type() == FieldDescriptor::TYPE_STRING && !field->is_repeated();
  return is_text ? field : nullptr;
}

void SetText(google::protobuf::Message& message, const std::string& name, const std::string& value) {
  const FieldDescriptor* field = TextField(message, name);
  if (field != nullptr) message.GetReflection()->SetString(&message, field, value);
}

}  // namespace

RandomCalls::RandomCalls(uint32_t seed, const HostileAim& aim, bool spare_others, bool oversized)
    : random_(seed),
      messages_(kHostile, random_),
      aim_(aim),
      spare_others_(spare_others),
      oversized_(oversized),
      methods_(AllMethods()) {}

// Mostly one of those that somebody else has submitted last.
std::string RandomCalls::AnyJob() {
  const uint64_t newest = aim_.newest_job;
  const uint64_t back = Below(6), far = Below(200);
  if (Below(4) == 0) return absl::StrCat("job-", 1 + far);
  return absl::StrCat("job-", newest > back ? newest - back : newest + back);
}

AttemptReport RandomCalls::AnyReport() {
  const std::string job = AnyJob();
  return messages_.Report(job, aim_.newest_job + Below(8), aim_.store_id);
}

std::string RandomCalls::JobText() {
  std::vector<std::string> names = {"files-2", "attempt-fails", "steps-20x5ms"};
  if (!spare_others_) {
    names.insert(names.end(), {"fail-rank-1", "exit-rank-1", "peer-rank-1", "attempt", "hang", "\x1b[2J"});
  }
  const std::vector<std::string> more = {"",
                                         "resources { max_ranks_per_node: 1 }",
                                         "resources { gpus: 1 }",
                                         "restart { max_restarts: 2 }",
                                         "output_dir: \"mallory/0\"",
                                         "output_dir: \"../elsewhere\"",
                                         "output_dir: \"model\"",
                                         "weights { from_job: \"job-1\" }"};
  const std::string name = messages_.Of(names);
  const int ranks = static_cast<int>(1 + Below(2));
  return FakeJob(name, ranks, messages_.Of(more));
}

std::unique_ptr<google::protobuf::Message> RandomCalls::Request(const Method& method) {
  std::unique_ptr<Message> request = NewRequest(method);
  SetText(*request, "job_id", AnyJob());
  SetText(*request, "node", "worker-0");
  SetText(*request, "name", messages_.Of<std::string>({"result.bin", "model.safetensors", "../x", "worker-0", "/"}));
  if (auto* submit = dynamic_cast<SubmitRequest*>(request.get())) {
    const std::string text = JobText();
    if (Below(2) == 0) {
      submit->set_spec_source(text);
    } else {
      google::protobuf::TextFormat::ParseFromString(text, submit->mutable_spec());
    }
    submit->set_priority(static_cast<int32_t>(Below(3)) - 1);
    submit->set_spec_file("job.textproto");
    submit->set_replace_output(Below(2) == 0);
    if (Below(2) == 0) submit->set_idempotency_key(absl::StrCat("key-", Below(10)));
  } else if (auto* list = dynamic_cast<ListJobsRequest*>(request.get())) {
    list->set_owner(messages_.Of<std::string>({"", "alice", kHostile}));
    list->set_page_size(Below(3));
  } else if (auto* events = dynamic_cast<ReadEventsRequest*>(request.get())) {
    events->set_follow(Below(2) == 0);
  } else if (auto* logs = dynamic_cast<ReadLogsRequest*>(request.get())) {
    logs->set_follow(Below(2) == 0);
  } else if (auto* chunk = dynamic_cast<ArtifactChunk*>(request.get())) {
    chunk->set_request_id(absl::StrCat("artifact-", Below(100)));
    chunk->set_total_bytes(Below(100));
    chunk->set_data(std::string(Below(100), 'd'));
  }
  return request;
}

void RandomCalls::Spare(const Method& method, Message& request) {
  if (!spare_others_ || OnlyReads(method)) return;
  SetText(request, "job_id", absl::StrCat(kHostile, "-", Below(100)));
  SetText(request, "node", kHostile);
  if (auto* submit = dynamic_cast<SubmitRequest*>(&request)) {
    submit->set_priority(0);
    if (submit->has_spec()) submit->mutable_spec()->set_name("files-2");
  }
}

std::vector<std::string> RandomCalls::Messages(const Method& method) {
  std::vector<std::string> messages;
  if (method.input_type() == WorkerMessage::descriptor()) {
    WorkerMessage first;
    std::vector<AttemptReport> reports;
    for (uint32_t left = Below(4); left > 0; --left) reports.push_back(AnyReport());
    *first.mutable_header() = MakeHeader();
    *first.mutable_hello() = messages_.Hello(reports);
    if (!spare_others_ && Below(8) == 0) first.mutable_hello()->set_name("worker-0");  // not that of its certificate
    messages.push_back(first.SerializePartialAsString());
    for (uint32_t left = Below(12); left > 0; --left) {
      WorkerMessage said = messages_.Said(AnyReport());
      if (Below(4) != 0) *said.mutable_header() = MakeHeader(said.header().epoch());
      messages.push_back(said.SerializePartialAsString());
    }
    if (Below(6) == 0) messages.erase(messages.begin());  // what comes first is no hello
    return messages;
  }
  for (uint32_t left = method.client_streaming() || Below(20) == 0 ? 1 + Below(4) : 1; left > 0; --left) {
    std::unique_ptr<Message> request = Request(method);
    messages_.Change(*request);
    if (Below(4) != 0) SetText(*request, "job_id", AnyJob());
    Spare(method, *request);
    messages.push_back(request->SerializePartialAsString());
  }
  return messages;
}

std::string RandomCalls::AtTheLimit(const Method& method) {
  const size_t size = kMaxMessageBytes - 1 + Below(3);
  std::unique_ptr<Message> request = Request(method);
  Spare(method, *request);
  const size_t padding = size - kPaddingOverhead - request->ByteSizeLong();
  request->GetReflection()
      ->MutableUnknownFields(request.get())
      ->AddLengthDelimited(kPadding, std::string(padding, 'x'));
  return request->SerializePartialAsString();
}

std::string RandomCalls::RandomBytes(uint32_t most) {
  std::string bytes;
  for (uint32_t left = Below(most); left > 0; --left) bytes.push_back(static_cast<char>(random_()));
  return bytes;
}

void RandomCalls::Damage(std::string& bytes) {
  for (uint32_t left = 1 + Below(4); left > 0 && !bytes.empty(); --left) {
    bytes[random_() % bytes.size()] = static_cast<char>(random_());
  }
}

HostileCall RandomCalls::Prepared() {
  if (prepared_.empty()) {
    std::vector<HostileCall> calls = IllEncodedCalls(random_, /*fields_per_method=*/4);
    if (oversized_) {
      for (HostileCall& call : OversizedCalls(random_, /*fields_per_method=*/1)) calls.push_back(std::move(call));
    }
    std::shuffle(calls.begin(), calls.end(), random_);
    for (HostileCall& call : calls) prepared_.push_back(std::move(call));
  }
  HostileCall call = std::move(prepared_.front());
  prepared_.pop_front();
  return call;
}

void RandomCalls::AddMetadata(RandomCall& call) {
  for (uint32_t left = Below(4); left > 0; --left) {
    switch (Below(5)) {
      case 0: call.metadata.emplace_back("authorization", absl::StrCat("Bearer ", random_(), random_())); break;
      case 1: call.metadata.emplace_back("authorization", std::string(1 + Below(300), ' ')); break;
      case 2: call.metadata.emplace_back("made-up-bin", RandomBytes(200)); break;
      // Headers of a call may have 8 KiB.
      case 3: call.metadata.emplace_back("made-up", std::string(Below(10) == 0 ? 7000 + Below(3000) : 10, 'x')); break;
      default: call.metadata.emplace_back(absl::StrCat("made-up-", Below(50)), absl::StrCat(random_())); break;
    }
  }
}

RandomCall RandomCalls::Next() {
  RandomCall call;
  // Each service half of the time, though one has more methods.
  const bool of_daemons = Below(2) == 0;
  const Method* method = nullptr;
  do {
    method = methods_[Below(static_cast<uint32_t>(methods_.size()))];
  } while ((method->service()->name() == "WorkerLink") != of_daemons);
  call.method = PathOf(*method);
  call.limit = absl::Milliseconds(Below(5) == 0 ? 1 + Below(50) : 200 + Below(2000));
  switch (Below(10)) {
    case 0: call.manner = Manner::kOpen; break;
    case 1:
      call.manner = Manner::kLeft;
      call.limit = kLeftFor;
      break;
    case 2: call.manner = Manner::kCancelled; break;
    default: break;
  }
  call.middle = static_cast<int>(Below(6));
  if (Below(4) == 0) AddMetadata(call);

  const bool largest = Below(kBetweenLargest) == 0 && oversized_;
  const uint32_t kind = Below(100);
  if (largest) {
    call.messages.push_back(AtTheLimit(*method));
    call.limit = kLargestLimit;
  } else if (kind < 78) {
    call.messages = Messages(*method);
    std::string& any = call.messages.empty() ? call.messages.emplace_back() : call.messages.back();
    // A damaged job might be one that runs for long.
    const bool stays_whole = spare_others_ && method->name() == "Submit";
    if (kind < 10) any.resize(Below(static_cast<uint32_t>(any.size()) + 1));
    if (kind >= 10 && kind < 20 && !stays_whole) Damage(any);
  } else if (kind < 84) {
    call.messages.push_back(RandomBytes(300));
  } else if (kind < 88) {
    if (Below(2) == 0) call.messages.emplace_back();
  } else if (kind < 96) {
    HostileCall prepared = Prepared();
    call.method = prepared.method;
    call.messages.push_back(std::move(prepared.bytes));
  } else {
    call.method = messages_.Of<std::string>({"/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check",
                                             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                             "/adjoin.Adjoin/Nothing", "/adjoin.RankLink/Connect", "/", "nothing"});
    call.messages.push_back(RandomBytes(50));
  }
  return call;
}

}  // namespace adjoin
