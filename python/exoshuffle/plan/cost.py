"""Predicts how many seconds a shuffle takes by each strategy; ``auto`` chooses by that.

The model. A shuffle has two phases, mapping (with merging and spilling) and reducing. In each, CPUs, disk and network
work at the same time. The busiest decides; the share ``UNHIDDEN`` of the others shows, as queues run dry now and then:

    seconds = sum over phases of  max(CPU, disk, network) + UNHIDDEN * (the rest)   + the last merge, which nobody hides

* CPU: bytes through maps, merges and reduces, bytes spilled and restored, tasks, slices, memory touched first.
* Disk: bytes over bandwidth, and a cost per request. A spilled slice is a request; reading starts and ends with a page.
  Where spilled bytes are compressed, disks have less to do, and CPUs more.
* Network: with n nodes (n - 1) / n of all moved bytes change the node, once. Merges of ``push`` move everything to the
  node that will reduce it, beside maps. With the other strategies reduces do. Merges of ``pre_shuffle_merge`` run where
  their inputs lie; these are kept, and spilled.

Merging replaces M·R small requests by (M / N)·R larger ones for one more pass over the data: this is Riffle's model
(§3). Exoshuffle §3.2 compares the same strategies by it. The papers leave open which to choose; this module decides it.

Rates were measured with 1 GB of 100-byte records shuffled within 400 MB on two CPUs of a virtual machine. They are CPU
seconds of whole runs, which depend less on other programs than wall time. The rates need not be right for another
machine: shared costs of strategies cancel out, and the choice rests on ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

from exoshuffle.futures.engine import DiskKind
from exoshuffle.plan.memory import PAGE_BYTES
from exoshuffle.plan.workload import Resources
from exoshuffle.units import counted

#: Bytes per second of one CPU. Runs of 64 to 250 partitions took 5.0 s of CPU in all by ``simple``. ``push`` took 0.3
#: to 0.45 s more, and ``pre_shuffle_merge``, which spilled 1.05 GB more, another 0.5 s more.
MAP_RATE = REDUCE_RATE = 450e6
MERGE_RATE = 2.5e9
#: Spilled bytes are written once and read once, with checksums.
SPILL_RATE = 1.6e9
#: 3,000 partitions took 3.7 s of CPU more than 64 with 180,000 slices, and 2.1 s more when merging halved the slices.
TASK_SECONDS = 0.5e-3
SLICE_SECONDS = 10e-6
#: The rate at which the system hands out fresh memory: 0.3 to 2 GB/s on virtual machines.
TOUCH_RATE = 1.5e9
UNHIDDEN = 0.25
#: A whole block is read in requests of so many bytes.
PIECE_BYTES = 8 << 20
#: Bytes per second of each node, in each direction: 10 Gbit/s.
NETWORK_RATE = 1.25e9


@dataclass(frozen=True)
class Packing:
    """The cost and the gain of compressing spilled bytes.

    Attributes:
        rate: Bytes per second of one CPU, packed once and unpacked once.
        part: The part that is left of rows with numbers and short texts; of noise all is left.
    """

    rate: float
    part: float


NO_PACKING = Packing(float("inf"), 1.0)
#: A sort that spilled 361 MB (random keys, prices, names) took 0.75 s of CPU more with LZ4, and 1.55 s more with zstd.
#: Files had 0.53 and 0.41 of the bytes.
PACKINGS = {"lz4": Packing(480e6, 0.55), "zstd": Packing(230e6, 0.45)}


@dataclass(frozen=True)
class Disk:
    """The speed of a kind of disk.

    Attributes:
        request_seconds: The time of a request beside its bytes, with four under way as in every fetch.
        read_rate: Bytes per second.
        write_rate: Bytes per second.
    """

    request_seconds: float
    read_rate: float
    write_rate: float


DISKS: dict[DiskKind, Disk] = {
    # We read 4 KiB to 4 MiB at random past the page cache, four at a time, best of three. It took 27 us for 4 KiB,
    # 72 us for 64 KiB, 131 us for 128 KiB and 187 us for 256 KiB. 25 us and 1.6 GB/s give these times within a fifth.
    "ssd": Disk(25e-6, 1.6e9, 1.0e9),
    # A request takes a seek and half a turn at 7,200 turns a minute; a bit less with four to choose from.
    "rotational": Disk(8e-3, 150e6, 150e6),
    # Clouds sell ordinary volumes with 3,000 requests and 125 MB a second.
    "network": Disk(1 / 3000, 125e6, 125e6),
}


@dataclass(frozen=True)
class Traffic:
    """The bytes that move in a shuffle by one strategy.

    Attributes:
        strategy: The name of the strategy.
        merge_factor: Blocks per merge; 1 if nothing is merged.
        total_bytes: Bytes of all rows.
        merged_bytes: Bytes through merges.
        tail_bytes: Bytes of a merge that begins when the last map has ended.
        pushed_bytes: Bytes that merges take from any node while maps run.
        pulled_bytes: Bytes that reduces take from any node. Of both, a network carries what does not stay on a node.
        written_bytes: Bytes that are spilled.
        merge_read_bytes: Spilled bytes that merges read, as whole blocks or ranges of their slices.
        num_merge_reads: The ranges; 0 if blocks are read whole.
        reduce_read_bytes: Spilled bytes that reduces read, slice by slice.
        touched_bytes: Memory in use at the peak.
        num_tasks: Maps, merges and reduces.
        num_slices: Slices that reduces read, spilled or not.
        num_spilled_slices: Spilled slices that reduces read.
        output_bytes: Bytes that are written to files.
    """

    strategy: str
    merge_factor: int
    total_bytes: int
    merged_bytes: int
    tail_bytes: int
    pushed_bytes: int
    pulled_bytes: int
    written_bytes: int
    merge_read_bytes: int
    num_merge_reads: int
    reduce_read_bytes: int
    touched_bytes: int
    num_tasks: int
    num_slices: int
    num_spilled_slices: int
    output_bytes: int

    @property
    def num_requests(self) -> int:
        """The number of reads of spilled bytes."""
        pieces = -(-self.merge_read_bytes // PIECE_BYTES)
        return self.num_spilled_slices + max(self.num_merge_reads, pieces)

    @property
    def read_bytes(self) -> int:
        """The spilled bytes that are read, with the parts of pages around slices."""
        pages = self.num_spilled_slices * PAGE_BYTES
        return self.merge_read_bytes + self.reduce_read_bytes + pages


@dataclass(frozen=True)
class Cost:
    """The predicted time of a strategy.

    Attributes:
        traffic: The bytes that it moves.
        cpu_seconds: Time of the two phases together, all CPUs busy.
        disk_seconds: The same with all disks busy.
        network_seconds: The same with all nodes sending.
        seconds: Time in all, with overlaps taken into account.
    """

    traffic: Traffic
    cpu_seconds: float
    disk_seconds: float
    network_seconds: float
    seconds: float

    def __str__(self) -> str:
        parts = {"CPU": self.cpu_seconds, "disk": self.disk_seconds}
        if self.network_seconds:
            parts["network"] = self.network_seconds
        listed = ", ".join(f"{name} {seconds_text(seconds)}" for name, seconds in parts.items())
        requests = counted(self.traffic.num_requests, "request")
        return f"{name_of(self.traffic)} {seconds_text(self.seconds)} ({listed}, {requests})"


def predict(traffic: Traffic, resources: Resources) -> Cost:
    """Predicts the cost of a traffic."""
    mapping, reducing = _mapping(traffic, resources), _reducing(traffic, resources)
    cpu, disk, network = (a + b for a, b in zip(mapping, reducing, strict=True))
    seconds = _overlapped(mapping) + _overlapped(reducing) + traffic.tail_bytes / MERGE_RATE
    return Cost(traffic, cpu, disk, network, seconds)


def name_of(traffic: Traffic) -> str:
    """Names the strategy, and how many blocks it merges."""
    merging = f" by {traffic.merge_factor}" if traffic.merge_factor > 1 else ""
    return traffic.strategy + merging


def seconds_text(seconds: float) -> str:
    """Returns seconds as text, with as many digits as a prediction has."""
    return f"{seconds:,.1f} s" if seconds < 100 else f"{seconds:,.0f} s"


_Phase = tuple[float, float, float]


def _mapping(traffic: Traffic, resources: Resources) -> _Phase:
    """Returns CPU, disk and network seconds of maps and merges; input is assumed on a disk like the spill disk."""
    packing = _packing(resources)
    cpu = (
        traffic.total_bytes / MAP_RATE
        + traffic.merged_bytes / MERGE_RATE
        + traffic.written_bytes / SPILL_RATE
        + traffic.written_bytes / packing.rate
        + traffic.touched_bytes / TOUCH_RATE
    )
    disk = DISKS[resources.disk]
    busy = (
        (traffic.total_bytes + packing.part * traffic.merge_read_bytes) / disk.read_rate
        + packing.part * traffic.written_bytes / disk.write_rate
        + traffic.merge_read_bytes / PIECE_BYTES * disk.request_seconds
    )
    return _per_node(cpu, busy, traffic.pushed_bytes, resources)


def _reducing(traffic: Traffic, resources: Resources) -> _Phase:
    """Returns CPU, disk and network seconds of reduces; output is assumed on a disk like the spill disk."""
    cpu = (
        traffic.total_bytes / REDUCE_RATE
        + traffic.num_tasks * TASK_SECONDS
        + traffic.num_slices * SLICE_SECONDS
    )
    disk = DISKS[resources.disk]
    read = traffic.read_bytes - traffic.merge_read_bytes
    busy = (
        _packing(resources).part * read / disk.read_rate
        + traffic.num_spilled_slices * disk.request_seconds
        + traffic.output_bytes / disk.write_rate
    )
    return _per_node(cpu, busy, traffic.pulled_bytes, resources)


def _packing(resources: Resources) -> Packing:
    return PACKINGS[resources.spill_codec] if resources.spill_codec else NO_PACKING


def _per_node(cpu: float, disk: float, sent: int, resources: Resources) -> _Phase:
    nodes = resources.num_nodes
    carried = sent * (nodes - 1) / nodes
    return cpu / resources.num_cpus, disk / nodes, carried / (nodes * NETWORK_RATE)


def _overlapped(phase: _Phase) -> float:
    busiest = max(phase)
    return busiest + UNHIDDEN * (sum(phase) - busiest)
