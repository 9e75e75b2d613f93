// Times what primitives.cc times, done by an MPI: the same operators, sizes, batches and lines.
//
//   mpicxx -std=c++17 -O3 -march=native -I. -o mpi_primitives bench/mpi_primitives.cc
//   mpirun -n 4 ./mpi_primitives openmpi broadcast,halo 1024,1048576 300      # 300 s at most
//
// Buffers are made once; all-sum-reduce works in place, which spares MPI a copy. No part of Adjoin is linked, and no
// build needs an MPI: primitives.py compiles this where mpicxx is.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/packed_halo.h"
#include "bench/protocol.h"

namespace adjoin::bench {
namespace {

using Run = std::function<void(int64_t)>;

int rank = 0, ranks = 1;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "mpi_primitives: rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

double Slowest(double time) {
  double slowest = 0;
  MPI_Allreduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

Run HaloOf(PackedHalo::Part part, PackedHalo::Form form) {
  const auto halo = std::make_shared<PackedHalo>(rank, GridOf(ranks), part, form);
  const auto requests = std::make_shared<std::vector<MPI_Request>>(2 * halo->edges().size());
  Run run = [halo, requests](int64_t) {
    MPI_Request* next = requests->data();
    for (PackedHalo::Edge& edge : halo->edges()) {
      MPI_Irecv(edge.in.data(), edge.in.size(), MPI_FLOAT, edge.peer, edge.tag_in, MPI_COMM_WORLD, next++);
    }
    for (PackedHalo::Edge& edge : halo->edges()) {
      halo->Pack(edge);
      MPI_Isend(edge.out.data(), edge.out.size(), MPI_FLOAT, edge.peer, edge.tag_out, MPI_COMM_WORLD, next++);
    }
    halo->CopyInterior();
    MPI_Waitall(requests->size(), requests->data(), MPI_STATUSES_IGNORE);
    for (PackedHalo::Edge& edge : halo->edges()) halo->Unpack(edge);
  };
  run(0);
  if (!halo->Correct()) Fail("the halo is wrong");
  return run;
}

Run ImageHalo(PackedHalo::Form form) {
  const Grid grid = GridOf(ranks);
  return HaloOf({kImageChannels, kImageSide / grid.rows, kImageSide / grid.columns}, form);
}

Run PatchHalo(int64_t bytes) {
  const Patch patch = PatchOf(bytes);
  if (patch.channels == 0) Fail("no patch has " + std::to_string(bytes) + " bytes");
  return HaloOf({patch.channels, patch.side, patch.side}, PackedHalo::kIntoPadded);
}

Run PingPong(float* a, float* b, int cells) {
  if (ranks % 2 != 0) Fail("ping_pong: ranks do not pair up");
  return [=](int64_t) {
    if (rank % 2 == 0) {
      MPI_Send(a, cells, MPI_FLOAT, rank + 1, 0, MPI_COMM_WORLD);
      MPI_Recv(b, cells, MPI_FLOAT, rank + 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(b, cells, MPI_FLOAT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(a, cells, MPI_FLOAT, rank - 1, 0, MPI_COMM_WORLD);
    }
  };
}

// `a` and `b` hold `bytes` each.
Run Make(const std::string& op, int64_t bytes, float* a, float* b) {
  const int cells = bytes / 4, part = cells / ranks;
  const MPI_Comm all = MPI_COMM_WORLD;
  if (op == "ping_pong") return PingPong(a, b, cells);
  if (op == "broadcast") return [=](int64_t i) { MPI_Bcast(a, cells, MPI_FLOAT, i % ranks, all); };
  if (op == "sum_reduce") return [=](int64_t i) { MPI_Reduce(a, b, cells, MPI_FLOAT, MPI_SUM, i % ranks, all); };
  if (op == "all_sum_reduce") {
    return [=](int64_t) { MPI_Allreduce(MPI_IN_PLACE, a, cells, MPI_FLOAT, MPI_SUM, all); };
  }
  if (op == "all_gather") return [=](int64_t) { MPI_Allgather(a, part, MPI_FLOAT, b, part, MPI_FLOAT, all); };
  if (op == "reduce_scatter") {
    return [=](int64_t) { MPI_Reduce_scatter_block(a, b, part, MPI_FLOAT, MPI_SUM, all); };
  }
  if (op == "all_to_all") return [=](int64_t) { MPI_Alltoall(a, part, MPI_FLOAT, b, part, MPI_FLOAT, all); };
  if (op == "halo") return PatchHalo(bytes);
  if (op == "image_halo") return ImageHalo(PackedHalo::kIntoPadded);
  if (op == "image_edges") return ImageHalo(PackedHalo::kInPlace);
  if (op == "work_halo") {
    return [halo = PatchHalo(bytes)](int64_t i) {
      Work();
      halo(i);
    };
  }
  Fail("no operator '" + op + "'");
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

void MeasureAll(const std::string& name, const std::string& ops, const std::string& sizes) {
  for (const std::string& op : Split(ops)) {
    std::vector<int64_t> all_bytes;
    for (const std::string& bytes : Split(sizes)) all_bytes.push_back(std::stoll(bytes));
    if (op == "image_halo" || op == "image_edges") all_bytes = {kImageRowBytes};
    if (op == "work_halo") all_bytes = {kWorkHaloBytes};
    for (const int64_t bytes : all_bytes) {
      if (bytes % (4 * ranks) != 0) Fail(std::to_string(bytes) + " bytes are not a number of floats for each rank");
      std::vector<float> a(bytes / 4), b(bytes / 4);
      const Run run = Make(op, bytes, a.data(), b.data());
      const std::vector<double> times =
          Measure(CountsFor(bytes), run, [&](double time) { return Slowest(time) / (op == "ping_pong" ? 2 : 1); });
      if (rank == 0) Report(name, op, ranks, bytes, times);
    }
  }
}

}  // namespace
}  // namespace adjoin::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: mpirun -n RANKS mpi_primitives NAME OPERATORS BYTES SECONDS\n");
    return 2;
  }
  alarm(std::atoi(argv[4]));  // no wait of MPI has a deadline: the process ends, and mpirun ends the others
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &adjoin::bench::rank);
  MPI_Comm_size(MPI_COMM_WORLD, &adjoin::bench::ranks);
  adjoin::bench::MeasureAll(argv[1], argv[2], argv[3]);
  MPI_Finalize();
}
