// The output of a rank: cut into the same lines however it arrives, without characters that a terminal or a log would
// obey.
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/check.h"
#include "worker/daemon/line_splitter.h"

namespace adjoin {
namespace {

void Append(std::vector<std::string>& lines, std::vector<std::string> more) {
  for (std::string& line : more) lines.push_back(std::move(line));
}

std::vector<std::string> Split(absl::string_view text, const std::vector<size_t>& pieces) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  for (size_t piece : pieces) {
    Append(lines, splitter.Add(text.substr(0, piece)));
    text.remove_prefix(std::min(piece, text.size()));
  }
  Append(lines, splitter.Add(text));
  Append(lines, splitter.Finish());
  return lines;
}

void CheckLine(const std::string& line) {
  FuzzCheck(line.size() <= LineSplitter::kMaxLine + 3, "a line is no longer than it may be");
  FuzzCheck(IsPrintableText(line), "a line is printable text");
}

}  // namespace
}  // namespace adjoin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  adjoin::ByteReader bytes(data, size);
  std::vector<size_t> pieces;
  for (uint32_t count = bytes.Below(16); count > 0; --count) pieces.push_back(bytes.Byte() * 17);
  // Few bytes make many: lines that are too long are what is to be tested.
  const uint32_t times = 1 + bytes.Below(64);
  const std::string part = bytes.Rest();
  std::string text;
  for (uint32_t i = 0; i < times; ++i) text += part;
  const std::vector<std::string> whole = adjoin::Split(text, {});
  for (const std::string& line : whole) adjoin::CheckLine(line);
  adjoin::FuzzCheck(adjoin::Split(text, pieces) == whole, "the lines do not depend on how the text arrives");
  return 0;
}
