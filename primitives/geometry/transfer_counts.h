// How many elements each rank sends and receives in a movement, how many messages, and with whom: counted without a
// schedule per rank.
//
//   TransferCounts counts;
//   if (!counts.Count(from, source, read, readings, to)) return;   // only schedules tell
//   counts.from()[2].elements;            // that the third rank of the source's mesh sends, to itself included
//   counts.PartnersOf(Side::kFrom, 2);    // to whom, as positions in the destination's mesh
//
// What two ranks exchange is a box: its volume is a product over the tensor's dims, and each factor depends on the
// parts of the dim that the two hold. On one mesh the selection (exchange_schedule.h) decides axis by axis. So the sum
// over all partners of a rank is a product of sums, one per dim, and each of these is read from a table by the rank's
// part. Between two meshes it is the same where the source has no copies; where it has, the pairs are listed.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_TRANSFER_COUNTS_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_TRANSFER_COUNTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "primitives/geometry/dim_parts.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/reading.h"

namespace adjoin {

enum class Side { kFrom, kTo };

// The transfers of one rank on one side; what it keeps is one of them.
struct EndCounts {
  int64_t elements = 0;
  int64_t transfers = 0;
  bool whole = false;    // there are any, and each is the rank's whole tensor in one region
  bool meets = false;    // two of them share a cell of the rank's tensor
  int first = -1;        // one of the partners, as a position on the other side; -1: there is none
  int64_t volume = 0;    // of the rank's tensor
  int64_t kept = 0;      // elements of the transfer to itself
  bool in_place = true;  // a rank of both sides: what it keeps stays where it is, in a tensor of the same shape
};

class TransferCounts {
 public:
  // Counts the movement from `from` to `to`, or, with readings, to what the outputs in layout `to` read of `read`;
  // `source`: the cells of `from` that are used. All are as MovementEnds has them (traffic.h), have passed its checks,
  // and must outlive this. Returns false where only schedules tell. What was counted before is replaced, in the same
  // memory.
  bool Count(const Layout& from, const std::map<int, Reading>& source, const Layout& read,
             const std::map<int, Reading>& readings, const Layout& to);

  // By position in the side's mesh.
  const std::vector<EndCounts>& from() const { return from_.ends; }
  const std::vector<EndCounts>& to() const { return to_.ends; }
  // Positions in the other side's mesh, in order.
  std::vector<int> PartnersOf(Side side, int position) const;
  // True where two ranks of a side (positions) have the same partners, for certain.
  bool HaveSamePartners(Side side, int a, int b) const;

 private:
  // Sums over a part's partners in one dim: those at the coordinates that the row stands for.
  struct Row {
    int64_t elements = 0, partners = 0, whole = 0;
    int first = -1;     // partner
    int64_t depth = 0;  // the largest number of them that share a cell
  };
  // How a rank's partners lie along an axis of their mesh: where the rows of the dim that the axis splits say, at the
  // rank's own coordinate, anywhere, or at 0.
  enum class Link { kByPart, kSame, kAny, kZero };
  struct Axis {
    int64_t size = 1;
    int64_t stride = 1;  // of positions
    int part_dim = -1;   // the dim that the axis splits, and the coordinate's weight in the part's number
    int64_t part_weight = 0;
    int row_dim = -1;  // the dim into whose rows the coordinate goes, and its weight there
    int64_t row_weight = 0;
    bool zero_only = false;  // ranks at other coordinates have no transfers
    Link link = Link::kZero;
  };
  struct End {
    const Layout* layout = nullptr;
    std::vector<Axis> axes;
    std::vector<DimParts> dims;
    std::vector<int64_t> fixed;                       // by dim: rows of each part
    std::vector<std::vector<Row>> rows;               // by dim and row: part x fixed
    std::vector<std::vector<int>> fixed_of_partner;   // by dim and part of the other side: in which of a part's rows
    std::vector<std::vector<int64_t>> part_position;  // by dim and part: its share of a position
    std::vector<int> part_of, row_of;                 // by position and dim
    std::vector<bool> active;                         // by position: it can have transfers
    std::vector<EndCounts> ends;                      // by position
    std::vector<std::vector<int>> partners;           // by position, where pairs are listed
    int64_t factor = 1;                               // partners that differ in no part
  };

  void Clear();
  static void SetAxes(End& end);
  void LinkAxes();
  static void SetPositions(End& end);
  void FillRows(End& own, const End& other, int dim, bool own_is_from) const;
  static void AddDepths(const DimParts& own, const DimParts& others, const std::vector<int>& fixed_of_partner,
                        int64_t fixed, std::vector<Row>& rows);
  static void CountProducts(End& own, const End& other);
  void CountKept();
  // Listed pairs; false where they are too many (transfer_pairs.cc).
  bool CountPairs();
  bool FindMeetings();
  bool ShareCells(int p, int a, int b) const;

  const End& EndOf(Side side) const { return side == Side::kFrom ? from_ : to_; }

  End from_, to_;
  bool same_mesh_ = false;
  bool sums_ = true;
  bool listed_ = false;                             // the pairs, in End::partners
  std::vector<std::vector<PartOverlap>> overlaps_;  // by dim; sorted by q, then p
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_TRANSFER_COUNTS_H_
