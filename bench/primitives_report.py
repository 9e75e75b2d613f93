"""The table and the verdicts of primitives.py: CSV lines in, Markdown out. Nothing here runs or waits.

    report = Report()
    report.add("adjoin,broadcast,4,1024,12.34,11.98")
    print(report.table(), report.verdicts(), sep="\\n\\n")
"""
import collections
import statistics

OPERATORS = ["ping_pong", "broadcast", "sum_reduce", "all_sum_reduce", "all_gather", "reduce_scatter", "all_to_all",
             "halo"]
EXTRA = ["image_halo", "image_refresh", "work_halo"]
SMALL = 8 << 10  # bytes up to which 1.3 times the better of the others will do
SMALL_LIMIT = 1.3
WORK_IDEAL = 400.0  # us: four ranks with 200 us of work each, two cores
WORK_LIMIT = 1.15

NOTES = """\
Microseconds: the median over batches of the slowest rank's time per execution. Ratio: Adjoin over the better of the
other two. Bytes are those of the tensor that each rank puts in; for all_gather of the one that comes out, for ping_pong
of each message (half a round trip; on 4 ranks two pairs at once). Roots of broadcast and sum_reduce rotate. Adjoin's
operators take LibTorch tensors and return fresh ones; Open MPI and Gloo use buffers again, and work in place for
broadcast and all_sum_reduce, Gloo also for sum_reduce. halo: float images cut in rows (2 ranks) or 2 x 2 (4 ranks),
kernel 3, from a patch of that many bytes to a copy of it with a ring of neighbours' cells and zeros (16 channels; 8 for
8 KiB, 4 for 1 KiB; the others' edges are packed by hand). image_halo: that of one 1x8x512x512 image, 16 KiB each way;
image_refresh: the same in a padded tensor that stays (HaloRefresh). work_halo: 200 us of processor time, then the halo of a patch of 8 KiB, on two cores."""


def size_text(size):
    for unit, bytes_of in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_of and size % bytes_of == 0:
            return f"{size // bytes_of} {unit}"
    return f"{size} B"


def time_text(time):
    if time is None:
        return "missing"
    return f"{time:.2f}" if time < 10 else f"{time:.1f}" if time < 100 else f"{time:,.0f}"


def verdict_text(met):
    return "met" if met else "**missed**"


class Report:
    def __init__(self):
        self.medians = collections.defaultdict(list)  # (implementation, operator, ranks, bytes): us of each run

    def add(self, line):
        """A line of a program; ValueError for anything else."""
        fields = line.strip().split(",")
        if len(fields) != 6:
            raise ValueError(f"not a line of implementation,operator,ranks,bytes,median,least: '{line.strip()}'")
        implementation, operator, ranks, size, median, _ = fields
        times = self.medians[implementation, operator, int(ranks), int(size)]
        if median != "missing":
            times.append(float(median))

    def time(self, implementation, operator, ranks, size):
        """None where it is missing."""
        times = self.medians.get((implementation, operator, ranks, size))
        return statistics.median(times) if times else None

    def rows(self):
        """(operator, ranks, bytes) of everything measured for Adjoin, in the table's order."""
        keys = {key[1:] for key in self.medians if key[0] == "adjoin"}
        order = OPERATORS + EXTRA
        return sorted(keys, key=lambda key: (order.index(key[0]), key[1], key[2]))

    def ratio(self, row):
        """Adjoin's time over the better of the two others; None where there is nothing to compare."""
        own = self.time("adjoin", *row)
        others = [time for time in (self.time("openmpi", *row), self.time("gloo", *row)) if time is not None]
        return own / min(others) if own is not None and others else None

    @staticmethod
    def meets(row, ratio):
        """The goal that every row has."""
        return ratio <= SMALL_LIMIT if row[2] <= SMALL else ratio < 1

    def table(self):
        lines = ["| operator | ranks | bytes | Adjoin | Open MPI | Gloo | ratio | goal |",
                 "|---|--:|--:|--:|--:|--:|--:|---|"]
        for row in self.rows():
            operator, ranks, size = row
            ratio = self.ratio(row)
            times = [time_text(self.time(name, *row)) for name in ("adjoin", "openmpi", "gloo")]
            goal = "" if ratio is None or operator in EXTRA else verdict_text(self.meets(row, ratio))
            lines.append(f"| {operator} | {ranks} | {size_text(size)} | {' | '.join(times)} | "
                         f"{'' if ratio is None else f'{ratio:.2f}'} | {goal} |")
        return "\n".join(lines)

    def verdicts(self):
        """A line for each goal that what was measured can answer."""
        lines = []
        compared = [(row, self.ratio(row)) for row in self.rows() if row[0] in OPERATORS]
        compared = [(row, ratio) for row, ratio in compared if ratio is not None]
        for text, small in ((f"up to {size_text(SMALL)} at most {SMALL_LIMIT} times the better of the two", True),
                            (f"above {size_text(SMALL)} faster than the better of the two", False)):
            part = [(row, ratio) for row, ratio in compared if (row[2] <= SMALL) == small]
            if part:
                met = sum(self.meets(row, ratio) for row, ratio in part)
                (operator, ranks, size), worst = max(part, key=lambda pair: pair[1])
                lines.append(f"- {text}: {verdict_text(met == len(part))}, met by {met} of {len(part)}; worst "
                             f"{worst:.2f} ({operator}, {ranks} ranks, {size_text(size)})")
        for row, ratio in compared:
            if row in (("all_sum_reduce", 4, 64 << 20), ("broadcast", 4, 64 << 20)):
                lines.append(f"- {row[0]} of 64 MiB on 4 ranks at least twice as fast: {verdict_text(ratio <= 0.5)}, "
                             f"{1 / ratio:.2f} times")
        return "\n".join(lines + self.halo_verdicts())

    def halo_verdicts(self):
        lines = []
        for row in self.rows():
            own = self.time("adjoin", *row)
            by_hand = {"image_halo": "image_halo", "image_refresh": "image_edges"}.get(row[0])
            bare = None if by_hand is None else self.time("ucx", by_hand, *row[1:])
            if own is not None and bare is not None:
                lines.append(f"- {row[0]}, {time_text(own)} us, no slower than packed by hand over bare UCX, "
                             f"{time_text(bare)} us: {verdict_text(own <= bare)} ({own / bare:.2f} times)")
            if own is not None and row[0] == "work_halo" and row[1] == 4:
                lines.append(f"- work_halo, {time_text(own)} us, at most {WORK_LIMIT} times the ideal of "
                             f"{WORK_IDEAL:.0f} us: {verdict_text(own <= WORK_LIMIT * WORK_IDEAL)} "
                             f"({own / WORK_IDEAL:.3f} times)")
        return lines
