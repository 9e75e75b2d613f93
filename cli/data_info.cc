#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "primitives/geometry/shape_text.h"
#include "worker/data/array_file.h"
#include "worker/data/array_formats.h"
#include "worker/data/array_summary.h"

namespace adjoin {
namespace {

constexpr int kBarWidth = 40;

std::string Number(double value) { return absl::StrFormat("%.7g", value); }

// The shape, with the names of the dims where the format has them.
std::string NamedShapeText(const ArrayHeader& header) {
  std::string text = ShapeText(header.shape);
  const size_t dims = header.shape.size();
  const ArrayFormat* const format = BuiltinArrayFormats().Find(header.format);
  const std::vector<std::string> names = format == nullptr ? std::vector<std::string>() : format->volume_dims;
  if (dims >= 2 && dims <= names.size()) {
    absl::StrAppend(&text, "  (", absl::StrJoin(names.end() - static_cast<int64_t>(dims), names.end(), ", "), ")");
  }
  return text;
}

std::string CountText(int64_t count, int64_t cells, const std::vector<int64_t>& first) {
  if (count == 0) return "none";
  return absl::StrCat(count, " of ", cells, " cells, the first at [", absl::StrJoin(first, ", "), "]");
}

// A line per bin; the longest bar is that of the bin with the most cells.
void PrintHistogram(const ArraySummary& summary) {
  int64_t most = 1;
  for (const ArraySummary::Bin& bin : summary.bins) most = std::max(most, bin.count);
  std::vector<std::vector<std::string>> rows = {{"VALUES", "CELLS", "SHARE", ""}};
  for (const ArraySummary::Bin& bin : summary.bins) {
    const double share = static_cast<double>(bin.count) / static_cast<double>(summary.cells);
    // Every count above 0 gets a mark.
    const auto marks =
        static_cast<size_t>(std::ceil(kBarWidth * static_cast<double>(bin.count) / static_cast<double>(most)));
    rows.push_back({bin.lo == bin.hi ? Number(bin.lo) : absl::StrCat(Number(bin.lo), " to ", Number(bin.hi)),
                    absl::StrCat(bin.count), absl::StrFormat("%.2f %%", 100 * share), std::string(marks, '#')});
  }
  std::cout << "\n" << TextTable(rows);
}

absl::StatusOr<int> ListDataSets(const ArrayFormat& format, const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<ArrayObject> objects, format.list(path, path));
  if (objects.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no data set is in it"));
  std::vector<std::vector<std::string>> rows = {{"OBJECT", "SHAPE", "TYPE"}};
  for (const ArrayObject& object : objects) {
    if (object.problem.ok()) {
      rows.push_back({object.name, NamedShapeText(object.header), ToString(object.header.type)});
    } else {
      rows.push_back({object.name, "-", std::string(object.problem.message())});
    }
  }
  std::cout << TextTable(rows) << "Show one with --object NAME.\n";
  return 0;
}

}  // namespace

absl::StatusOr<int> RunDataInfo(const std::string& path, const std::string& object, const std::string& format) {
  ArrayFileOptions options;
  options.format = format;
  options.object = object;
  const ArrayFormats& formats = BuiltinArrayFormats();
  ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* const found, formats.Of(path, options));
  if (object.empty() && found->list != nullptr) return ListDataSets(*found, path);
  options.format = found->name;
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayFile> file, ArrayFile::Open(path, options));
  const ArrayHeader& header = file->header();
  if (!object.empty() && found->list == nullptr) {
    const std::string right = formats.Titles([](const ArrayFormat& known) { return known.list != nullptr; });
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": --object is for ", right, " files, this one is of format ", header.format));
  }
  ADJOIN_ASSIGN_OR_RETURN(const ArraySummary summary, Summarise(*file));
  std::vector<std::vector<std::string>> rows = {{"file", path}};
  if (!object.empty()) rows.push_back({"object", object});
  rows.push_back({"format", header.format});
  rows.push_back({"shape", NamedShapeText(header)});
  rows.push_back({"type", ToString(header.type)});
  if (header.slope != 1 || header.intercept != 0) {
    rows.push_back({"values", absl::StrCat(Number(header.slope), " * cell + ", Number(header.intercept))});
  }
  if (summary.finite > 0) {
    rows.push_back({"min", Number(summary.min)});
    rows.push_back({"max", Number(summary.max)});
    rows.push_back({"mean", Number(summary.mean)});
  }
  rows.push_back({"NaN", CountText(summary.nan_count, summary.cells, summary.first_nan)});
  if (summary.infinite_count > 0) {
    rows.push_back({"infinite", CountText(summary.infinite_count, summary.cells, summary.first_infinite)});
  }
  std::cout << TextTable(rows);
  if (summary.finite > 0) PrintHistogram(summary);
  return 0;
}

}  // namespace adjoin
