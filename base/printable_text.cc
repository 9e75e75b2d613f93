#include "base/printable_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adjoin {
namespace {

// The longest note of what was left out: "... (18446744073709551615 more bytes)", rounded up.
constexpr size_t kNoteBytes = 48;

// Bytes of the well-formed UTF-8 character at the start of `bytes` (not empty), 0 where there is none.
size_t CharacterLength(absl::string_view bytes) {
  const unsigned char lead = bytes[0];
  size_t length = 0;
  if (lead < 0x80) length = 1;
  if (lead >= 0xc2 && lead < 0xe0) length = 2;
  if (lead >= 0xe0 && lead < 0xf0) length = 3;
  if (lead >= 0xf0 && lead < 0xf5) length = 4;
  if (length == 0 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(bytes[i]) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = length > 1 ? bytes[1] : 0;
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool beyond = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

uint32_t CodePoint(absl::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  switch (character.size()) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3: return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default: return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  }
}

bool IsControl(uint32_t c) {
  if (c == '\t') return false;
  return c < 0x20 || (c >= 0x7f && c < 0xa0) ||                                        // C0, delete, C1
         c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||  // lines and directions
         (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

// Returns how the character at the start of `text` (not empty) is shown, and sets `*length` to its bytes.
std::string Shown(absl::string_view text, size_t* length) {
  *length = CharacterLength(text);
  if (*length == 0) {
    *length = 1;
    return absl::StrFormat("\\x%02x", static_cast<unsigned char>(text[0]));
  }
  const absl::string_view character = text.substr(0, *length);
  const uint32_t c = CodePoint(character);
  if (!IsControl(c)) return std::string(character);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  return c < 0x100 ? absl::StrFormat("\\x%02x", c) : absl::StrFormat("\\u%04x", c);
}

}  // namespace

std::string PrintableText(absl::string_view text, size_t max_bytes) {
  const size_t limit = std::max(max_bytes, kNoteBytes);
  if (text.size() <= limit && IsPrintableText(text)) return std::string(text);
  std::string shown;
  size_t room_for_note = 0;  // bytes of `shown`, and of `text`, that leave room for the note
  size_t read_for_note = 0;
  for (size_t read = 0; read < text.size();) {
    size_t length = 0;
    const std::string next = Shown(text.substr(read), &length);
    if (shown.size() + next.size() > limit) {
      shown.resize(room_for_note);
      return absl::StrCat(shown, "... (", text.size() - read_for_note, " more bytes)");
    }
    shown += next;
    read += length;
    if (shown.size() + kNoteBytes <= limit) {
      room_for_note = shown.size();
      read_for_note = read;
    }
  }
  return shown;
}

bool IsPrintableText(absl::string_view text) {
  while (!text.empty()) {
    if (text[0] >= ' ' && text[0] <= '~') {
      text.remove_prefix(1);
      continue;
    }
    const size_t length = CharacterLength(text);
    if (length == 0 || IsControl(CodePoint(text.substr(0, length)))) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace adjoin
