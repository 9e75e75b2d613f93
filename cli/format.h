// Answers as programs read them: JSON as protobuf's own printer writes it, with the names of the .proto file, every
// field present and 64-bit numbers as texts; YAML with the same content.
//
//   std::cout << Formatted(response, Format::kJson);
//   std::cout << FormattedItem(line, Format::kJson);     // one of many: a line each, or a YAML document each
#ifndef ADJOIN_CLI_FORMAT_H_
#define ADJOIN_CLI_FORMAT_H_

#include <string>

#include <google/protobuf/message.h>

namespace adjoin {

enum class Format { kTable, kJson, kYaml };  // kTable: for people, as each command has it

// `format` is not kTable. The message's own `header` is left out. Ends with a line end.
std::string Formatted(const google::protobuf::Message& message, Format format);
// The same of a JSON document that is text already.
std::string FormattedText(const std::string& json, Format format);
std::string FormattedItem(const google::protobuf::Message& message, Format format);

}  // namespace adjoin

#endif  // ADJOIN_CLI_FORMAT_H_
