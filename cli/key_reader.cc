#include "cli/key_reader.h"

#include <optional>
#include <utility>

namespace adjoin {
namespace {

constexpr char kEscape = '\x1b';
constexpr size_t kLongestSequence = 16;

std::optional<Key> KeyOf(char byte) {
  switch (byte) {
    case 'q': return Key::kQuit;
    case 'k': return Key::kUp;
    case 'j': return Key::kDown;
    case 'g': return Key::kHome;
    case 'G': return Key::kEnd;
    case ' ': return Key::kPageDown;
    case 's': return Key::kSort;
    case 'r': return Key::kReverse;
    case '\f': return Key::kRefresh;
    case '\r':
    case '\n': return Key::kEnter;
    case '\b':
    case '\x7f': return Key::kBack;
    default: return std::nullopt;
  }
}

// The key of the sequence after "\x1b[" or "\x1bO".
std::optional<Key> KeyOfSequence(absl::string_view sequence) {
  static constexpr std::pair<const char*, Key> kSequences[] = {
      {"A", Key::kUp},      {"B", Key::kDown},      {"C", Key::kEnter}, {"D", Key::kBack}, {"H", Key::kHome},
      {"F", Key::kEnd},     {"1~", Key::kHome},     {"7~", Key::kHome}, {"4~", Key::kEnd}, {"8~", Key::kEnd},
      {"5~", Key::kPageUp}, {"6~", Key::kPageDown}, {"M", Key::kEnter}};
  for (const auto& [known, key] : kSequences) {
    if (sequence == known) return key;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Key> KeyReader::Read(absl::string_view bytes) {
  std::vector<Key> keys;
  for (const char byte : bytes) {
    if (begun_.empty() && byte != kEscape) {
      if (const std::optional<Key> key = KeyOf(byte)) keys.push_back(*key);
      continue;
    }
    if (begun_.size() == 1 && byte != '[' && byte != 'O') {  // Esc, and another key
      keys.push_back(Key::kBack);
      begun_.clear();
      if (byte == kEscape) {
        begun_ += byte;
      } else if (const std::optional<Key> key = KeyOf(byte)) {
        keys.push_back(*key);
      }
      continue;
    }
    begun_ += byte;
    const bool ends = begun_.size() > 2 && byte >= '@' && byte <= '~';
    if (ends) {
      if (const std::optional<Key> key = KeyOfSequence(absl::string_view(begun_).substr(2))) keys.push_back(*key);
    }
    if (ends || begun_.size() >= kLongestSequence) begun_.clear();
  }
  return keys;
}

std::vector<Key> KeyReader::Flush() {
  const std::string begun = std::exchange(begun_, "");
  if (begun.size() == 1) return {Key::kBack};
  return {};
}

}  // namespace adjoin
