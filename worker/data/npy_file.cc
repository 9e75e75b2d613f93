#include "worker/data/npy_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "worker/data/byte_source.h"
#include "worker/data/header_then_cells.h"

namespace adjoin {
namespace {

constexpr char kNpyName[] = "npy";
constexpr char kMagic[] = "\x93NUMPY";
constexpr int64_t kMagicBytes = 6;
// Headers of arrays of numbers have about a hundred bytes.
constexpr int64_t kMaxHeaderBytes = 1 << 16;
constexpr int kMaxNpyDims = 32;  // NumPy's own limit

const std::pair<CellType, const char*> kTypeNames[] = {
    {CellType::kUInt8, "u1"},   {CellType::kInt8, "i1"},    {CellType::kUInt16, "u2"},  {CellType::kInt16, "i2"},
    {CellType::kUInt32, "u4"},  {CellType::kInt32, "i4"},   {CellType::kUInt64, "u8"},  {CellType::kInt64, "i8"},
    {CellType::kFloat16, "f2"}, {CellType::kFloat32, "f4"}, {CellType::kFloat64, "f8"}, {CellType::kUInt8, "b1"},
};

// Reads the header's Python dictionary. Every function returns false where the text has something else.
class DictParser {
 public:
  explicit DictParser(absl::string_view text) : text_(text) {}

  bool Is(char c) {
    text_ = absl::StripLeadingAsciiWhitespace(text_);
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Next(char c) {
    text_ = absl::StripLeadingAsciiWhitespace(text_);
    return !text_.empty() && text_[0] == c;
  }
  bool AtEnd() { return absl::StripLeadingAsciiWhitespace(text_).empty(); }
  bool Text(std::string& out) {
    const char quote = Next('"') ? '"' : '\'';
    if (!Is(quote)) return false;
    const size_t end = text_.find(quote);
    if (end == absl::string_view::npos) return false;
    out = std::string(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return true;
  }
  bool Flag(bool& out) {
    text_ = absl::StripLeadingAsciiWhitespace(text_);
    out = absl::ConsumePrefix(&text_, "True");
    return out || absl::ConsumePrefix(&text_, "False");
  }
  bool Extent(int64_t& out) {
    text_ = absl::StripLeadingAsciiWhitespace(text_);
    size_t digits = 0;
    out = 0;
    for (; digits < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[digits])); ++digits) {
      if (__builtin_mul_overflow(out, 10, &out) || __builtin_add_overflow(out, text_[digits] - '0', &out)) return false;
    }
    text_.remove_prefix(digits);
    absl::ConsumePrefix(&text_, "L");  // as Python 2 wrote long numbers
    return digits > 0;
  }
  bool Extents(std::vector<int64_t>& out) {
    if (!Is('(')) return false;
    out.clear();
    while (!Is(')')) {
      int64_t extent = 0;
      if (out.size() == kMaxNpyDims || !Extent(extent)) return false;
      out.push_back(extent);
      if (!Is(',') && !Next(')')) return false;
    }
    return true;
  }

 private:
  absl::string_view text_;
};

std::string KindName(char kind) {
  switch (kind) {
    case 'c': return "complex numbers";
    case 'O': return "Python objects";
    case 'S':
    case 'a':
    case 'U': return "text";
    case 'M':
    case 'm': return "dates and times";
    case 'V': return "structures";
  }
  return "cells of an unknown type";
}

absl::Status ParseDescr(const std::string& name, const std::string& descr, StoredArray& array) {
  constexpr char kKnown[] = "bool, (u)int8 to (u)int64, float16, float32, float64";
  absl::string_view code = descr;
  const bool ordered = !code.empty() && absl::string_view("<>=|").find(code[0]) != absl::string_view::npos;
  array.big_endian = ordered && code[0] == '>';
  if (ordered) code.remove_prefix(1);
  for (const auto& [type, known] : kTypeNames) {
    if (code != known) continue;
    array.header.type = type;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ": holds ", KindName(code.empty() ? ' ' : code[0]), " ('",
                                                 absl::CHexEscape(descr), "'), which cannot be read; right would be ",
                                                 kKnown));
}

absl::Status ParseHeader(const std::string& name, const std::string& text, StoredArray& array) {
  const auto bad = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat(name, ": bad NPY header: ", what));
  };
  DictParser parser(text);
  bool has_descr = false, has_order = false, has_shape = false;
  if (!parser.Is('{')) return bad("not a dictionary");
  while (!parser.Is('}')) {
    std::string key;
    if (!parser.Text(key) || !parser.Is(':')) return bad("not a dictionary with text as keys");
    if (key == "descr" && !has_descr) {
      has_descr = true;
      std::string descr;
      if (parser.Next('[')) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": holds structures (a list as 'descr'), which cannot be read; right would be numbers"));
      }
      if (!parser.Text(descr)) return bad("'descr' is no text");
      ADJOIN_RETURN_IF_ERROR(ParseDescr(name, descr, array));
    } else if (key == "fortran_order" && !has_order) {
      has_order = true;
      if (!parser.Flag(array.header.fortran)) return bad("'fortran_order' is neither True nor False");
    } else if (key == "shape" && !has_shape) {
      has_shape = true;
      if (!parser.Extents(array.header.shape)) {
        return bad(absl::StrCat("'shape' is no tuple of at most ", kMaxNpyDims, " extents"));
      }
    } else {
      return bad(absl::StrCat("its key '", absl::CHexEscape(key), "' is unknown or there twice"));
    }
    if (!parser.Is(',') && !parser.Next('}')) return bad("neither ',' nor '}' after a value");
  }
  if (!parser.AtEnd()) return bad("something follows its dictionary");
  if (!has_descr || !has_order || !has_shape) return bad("'descr', 'fortran_order' and 'shape' are not all there");
  return absl::OkStatus();
}

absl::StatusOr<StoredArray> ReadNpyHeader(ByteSource& source) {
  const std::string& name = source.name();
  const auto truncated = [&] {
    return absl::DataLossError(
        absl::StrCat(name, ": truncated: ends within its NPY header, after ", source.position(), " bytes"));
  };
  unsigned char start[12] = {};
  ADJOIN_ASSIGN_OR_RETURN(int64_t count, source.Read(start, 8));
  if (count == 0) return absl::DataLossError(absl::StrCat(name, ": empty; an NPY file was expected"));
  if (std::memcmp(start, kMagic, static_cast<size_t>(std::min(count, kMagicBytes))) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": not an NPY file: it does not start with \\x93NUMPY"));
  }
  if (count < 8) return truncated();
  const int version = start[6];
  if (version < 1 || version > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": NPY version ", version, ".", start[7], " is unknown; known are 1 to 3"));
  }
  const int length_bytes = version == 1 ? 2 : 4;
  ADJOIN_ASSIGN_OR_RETURN(count, source.Read(start + 8, length_bytes));
  if (count < length_bytes) return truncated();
  int64_t length = start[8] | start[9] << 8;
  if (version > 1) length |= int64_t{start[10]} << 16 | int64_t{start[11]} << 24;
  if (length > kMaxHeaderBytes) {
    return absl::DataLossError(absl::StrCat(name, ": bad NPY header: it would have ", length, " bytes; at most ",
                                            kMaxHeaderBytes, " belong there"));
  }
  std::string text(static_cast<size_t>(length), '\0');
  ADJOIN_ASSIGN_OR_RETURN(count, source.Read(text.data(), length));
  if (count < length) return truncated();
  StoredArray array;
  array.header.format = kNpyName;
  ADJOIN_RETURN_IF_ERROR(ParseHeader(name, text, array));
  array.offset = source.position();
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(name, array.header, array.offset));
  return array;
}

}  // namespace

std::string NpyHeaderBytes(CellType type, const std::vector<int64_t>& shape) {
  const auto* name = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                  [&](const auto& known) { return known.first == type; });
  std::string text =
      absl::StrCat("{'descr': '", SizeOf(type) == 1 ? "|" : "<", name->second, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  // The first cell is aligned to 64 bytes; a line end comes before it.
  constexpr size_t kBefore = 10;
  text.resize((kBefore + text.size() + 1 + 63) / 64 * 64 - kBefore - 1, ' ');
  text += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return bytes + text;
}

ArrayFormat NpyFormat() {
  const auto sniff = [](const FileStart& start) {
    return absl::StartsWith(start.bytes, kMagic) ? Likeness::kYes : Likeness::kNo;
  };
  const auto header_bytes = [](CellType type, const std::vector<int64_t>& shape, const ArrayWriterOptions&) {
    return NpyHeaderBytes(type, shape);
  };
  return HeaderThenCells({.name = kNpyName, .title = "NPY", .extension = ".npy", .sniff = sniff}, ReadNpyHeader,
                         header_bytes);
}

}  // namespace adjoin
