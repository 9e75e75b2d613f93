// How the fuzzer changes a spec: text that parses is changed as a message most of the time, as few changes of bytes
// leave a job.
#include <google/protobuf/text_format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "planner/spec/spec_parser.h"
#include "tests/fuzz/message_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937 random(seed);
  absl::StatusOr<adjoin::ParsedSpec> parsed =
      adjoin::ParseSpec(absl::string_view(reinterpret_cast<const char*>(data), size), "job.textproto");
  if (!parsed.ok() || random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) adjoin::MutateMessage(parsed->spec, random);
  std::string text;
  google::protobuf::TextFormat::PrintToString(parsed->spec, &text);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  memcpy(data, text.data(), text.size());
  return text.size();
}
