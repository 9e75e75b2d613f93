// The halo of an image as one writes it by hand for MPI or bare UCX: edges packed by loops into messages, a ring of
// cells around the patch. What Adjoin's halo exchange is compared with. Standard library only.
//
//   PackedHalo halo(rank, GridOf(4), {.channels = 16, .rows = 32, .columns = 32}, PackedHalo::kIntoPadded);
//   for (PackedHalo::Edge& edge : halo.edges()) {
//     halo.Pack(edge);
//     Send(edge.peer, edge.tag_out, edge.out);
//     Receive(edge.peer, edge.tag_in, &edge.in);
//   }
//   halo.CopyInterior();
//   for (PackedHalo::Edge& edge : halo.edges()) halo.Unpack(edge);
//   halo.Correct();
//
// The border of the whole image is zeros. Buffers are made once and used again.
#ifndef ADJOIN_BENCH_PACKED_HALO_H_
#define ADJOIN_BENCH_PACKED_HALO_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "bench/protocol.h"

namespace adjoin::bench {

class PackedHalo {
 public:
  // One rank's part of the image.
  struct Part {
    int64_t channels = 0;
    int64_t rows = 0;
    int64_t columns = 0;
  };
  enum Form {
    kIntoPadded,  // from a patch without a ring into a padded copy of it: what a tensor operator does
    kInPlace,     // the patch lies in its ring already: the edges alone
  };
  // What goes to one neighbour, and comes from it.
  struct Edge {
    int peer = 0;
    int tag_out = 0;
    int tag_in = 0;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t from = 0;  // first cell within a channel of the source
    int64_t to = 0;    // and of the padded image
    std::vector<float> out;
    std::vector<float> in;
  };

  // Patches of equal size; ranks in row-major order of `grid`.
  PackedHalo(int rank, Grid grid, Part part, Form form)
      : part_(part),
        form_(form),
        padded_(part.channels * (part.rows + 2) * (part.columns + 2), 0.0f),
        row_(rank / grid.columns),
        column_(rank % grid.columns),
        grid_(grid) {
    if (form == kIntoPadded) plain_.resize(part.channels * part.rows * part.columns);
    for (int64_t c = 0; c < part.channels; ++c) {
      for (int64_t y = 0; y < part.rows; ++y) {
        float* row = Source() + c * Channel() + (y + Ring()) * Row() + Ring();
        for (int64_t x = 0; x < part.columns; ++x) row[x] = Truth(c, y, x);
      }
    }
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) AddEdge(dy, dx);
    }
  }

  std::vector<Edge>& edges() { return edges_; }

  void Pack(Edge& edge) const {
    Copy(Source() + edge.from, Channel(), Row(), edge.out.data(), edge.rows * edge.columns, edge.columns, edge);
  }
  void Unpack(Edge& edge) {
    float* to = padded_.data() + edge.to;
    Copy(edge.in.data(), edge.rows * edge.columns, edge.columns, to, PaddedChannel(), PaddedRow(), edge);
  }
  // Nothing where the patch lies in its ring.
  void CopyInterior() {
    if (form_ == kInPlace) return;
    for (int64_t c = 0; c < part_.channels; ++c) {
      for (int64_t y = 0; y < part_.rows; ++y) {
        std::memcpy(&padded_[c * PaddedChannel() + (y + 1) * PaddedRow() + 1],
                    &plain_[(c * part_.rows + y) * part_.columns], sizeof(float) * part_.columns);
      }
    }
  }

  // Whether every cell of the padded image is what the whole image has there.
  bool Correct() const {
    for (int64_t c = 0; c < part_.channels; ++c) {
      for (int64_t y = -1; y <= part_.rows; ++y) {
        for (int64_t x = -1; x <= part_.columns; ++x) {
          if (padded_[c * PaddedChannel() + (y + 1) * PaddedRow() + x + 1] != Truth(c, y, x)) return false;
        }
      }
    }
    return true;
  }

 private:
  int64_t Ring() const { return form_ == kInPlace ? 1 : 0; }
  int64_t Row() const { return part_.columns + 2 * Ring(); }
  int64_t Channel() const { return Row() * (part_.rows + 2 * Ring()); }
  int64_t PaddedRow() const { return part_.columns + 2; }
  int64_t PaddedChannel() const { return PaddedRow() * (part_.rows + 2); }
  const float* Source() const { return form_ == kInPlace ? padded_.data() : plain_.data(); }
  float* Source() { return form_ == kInPlace ? padded_.data() : plain_.data(); }

  // The value of the cell (y, x), counted from this patch's first one; it may be outside the patch.
  float Truth(int64_t c, int64_t y, int64_t x) const {
    const int64_t global_y = row_ * part_.rows + y, global_x = column_ * part_.columns + x;
    const bool inside = global_y >= 0 && global_y < grid_.rows * part_.rows && global_x >= 0 &&
                        global_x < grid_.columns * part_.columns;
    return inside ? static_cast<float>(1 + c + 3 * global_y + 7 * global_x) : 0;
  }

  void AddEdge(int dy, int dx) {
    const int y = row_ + dy, x = column_ + dx;
    if ((dy == 0 && dx == 0) || y < 0 || y >= grid_.rows || x < 0 || x >= grid_.columns) return;
    Edge edge;
    edge.peer = y * grid_.columns + x;
    edge.tag_out = (dy + 1) * 3 + dx + 1;
    edge.tag_in = 8 - edge.tag_out;  // the neighbour's direction to here
    edge.rows = dy == 0 ? part_.rows : 1;
    edge.columns = dx == 0 ? part_.columns : 1;
    edge.from = ((dy > 0 ? part_.rows - 1 : 0) + Ring()) * Row() + (dx > 0 ? part_.columns - 1 : 0) + Ring();
    edge.to = (dy < 0 ? 0 : dy > 0 ? part_.rows + 1 : 1) * PaddedRow() + (dx < 0 ? 0 : dx > 0 ? part_.columns + 1 : 1);
    edge.out.resize(part_.channels * edge.rows * edge.columns);
    edge.in.resize(edge.out.size());
    edges_.push_back(edge);
  }

  void Copy(const float* from, int64_t from_channel, int64_t from_row, float* to, int64_t to_channel, int64_t to_row,
            const Edge& edge) const {
    for (int64_t c = 0; c < part_.channels; ++c) {
      for (int64_t y = 0; y < edge.rows; ++y) {
        const float* source = from + c * from_channel + y * from_row;
        float* target = to + c * to_channel + y * to_row;
        if (edge.columns == 1) {
          *target = *source;
        } else {
          std::memcpy(target, source, sizeof(float) * edge.columns);
        }
      }
    }
  }

  Part part_;
  Form form_;
  std::vector<float> plain_;
  std::vector<float> padded_;
  std::vector<Edge> edges_;
  int64_t row_;
  int64_t column_;
  Grid grid_;
};

}  // namespace adjoin::bench

#endif  // ADJOIN_BENCH_PACKED_HALO_H_
