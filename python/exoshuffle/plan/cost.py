"""What a shuffle would take by each strategy, in seconds: which one ``auto`` chooses.

The model. A shuffle has two phases, mapping (with merging and spilling) and reducing. In each, CPUs, disk and network
work at the same time; the busiest decides, and of the others ``UNHIDDEN`` shows, as queues run dry now and then. So

    seconds = sum over phases of  max(CPU, disk, network) + UNHIDDEN * (the rest)   + the last merge, which nobody hides

* CPU: bytes through maps, merges and reduces, bytes spilled and restored, tasks, slices, memory touched first.
* Disk: bytes over bandwidth, and a cost per request. A spilled slice is a request; reading starts and ends with a page.
* Network: with n nodes (n - 1) / n of what moves changes the node. Reduces move everything once. A merge of ``push``
  moves its inputs too; one of ``pre_shuffle_merge`` runs where they lie, but its inputs are kept, and spilled.

That merging replaces M·R small requests by (M / N)·R larger ones for one more pass over the data is Riffle's model
(§3); Exoshuffle §3.2 compares the same strategies by it. What the papers leave open is which to choose: this is that.

Rates were measured with 1 GB of 100-byte records shuffled within 400 MB on two CPUs of a virtual machine, as CPU
seconds of whole runs, which depend less on what else runs than their wall time. They need not be right for another
machine: what strategies share cancels out, and the choice rests on their ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

from exoshuffle.futures.engine import DiskKind
from exoshuffle.plan.workload import Resources
from exoshuffle.units import counted

#: Bytes per second of one CPU. Runs of 64 to 250 partitions took 5.0 s of CPU in all by ``simple``, 0.3 to 0.45 s more
#: by ``push``, and 0.5 s more again by ``pre_shuffle_merge``, which spilled 1.05 GB more.
MAP_RATE = REDUCE_RATE = 450e6
MERGE_RATE = 2.5e9
#: Written once and read once, with checksums.
SPILL_RATE = 1.6e9
#: 3,000 partitions took 3.7 s more of CPU than 64 with 180,000 slices, and 2.1 s more when merging halved these.
TASK_SECONDS = 0.5e-3
SLICE_SECONDS = 10e-6
#: Memory that the system hands out for the first time: 0.3 to 2 GB/s on virtual machines.
TOUCH_RATE = 1.5e9
UNHIDDEN = 0.25
PAGE_BYTES = 4096
#: A whole block is read in requests of so many bytes.
PIECE_BYTES = 8 << 20
#: Of each node, in each direction: 10 Gbit/s.
NETWORK_RATE = 1.25e9


@dataclass(frozen=True)
class Disk:
    """What a kind of disk does.

    Attributes:
        request_seconds: A request beside its bytes, with four under way as in every fetch.
        read_rate: Bytes per second.
        write_rate: Bytes per second.
    """

    request_seconds: float
    read_rate: float
    write_rate: float


DISKS: dict[DiskKind, Disk] = {
    # Random reads of 4 KiB to 4 MiB past the page cache, four at a time, best of three: 27 us for 4 KiB, 72 us for
    # 64 KiB, 131 us for 128 KiB and 187 us for 256 KiB, which 25 us and 1.6 GB/s give within a fifth.
    "ssd": Disk(25e-6, 1.6e9, 1.0e9),
    # A seek and half a turn at 7,200 turns a minute; a bit less with four to choose from.
    "rotational": Disk(8e-3, 150e6, 150e6),
    # As clouds sell ordinary volumes: 3,000 requests and 125 MB a second.
    "network": Disk(1 / 3000, 125e6, 125e6),
}


@dataclass(frozen=True)
class Traffic:
    """What moves in a shuffle by one strategy.

    Attributes:
        strategy: Its name.
        merge_factor: Blocks per merge; 1 if nothing is merged.
        total_bytes: Of all rows.
        merged_bytes: Through merges.
        tail_bytes: Of a merge that begins when the last map has ended.
        moved_bytes: That change the task that holds them: what a network has to carry, but for what stays on a node.
        written_bytes: Spilled.
        merge_read_bytes: Spilled and read by merges, as whole blocks.
        reduce_read_bytes: Spilled and read by reduces, slice by slice.
        touched_bytes: Memory in use at the peak.
        num_tasks: Maps, merges and reduces.
        num_slices: That reduces read, spilled or not.
        num_spilled_slices: Those of them that are spilled.
        output_bytes: Written to files.
    """

    strategy: str
    merge_factor: int
    total_bytes: int
    merged_bytes: int
    tail_bytes: int
    moved_bytes: int
    written_bytes: int
    merge_read_bytes: int
    reduce_read_bytes: int
    touched_bytes: int
    num_tasks: int
    num_slices: int
    num_spilled_slices: int
    output_bytes: int

    @property
    def num_requests(self) -> int:
        """Reads of spilled bytes."""
        return self.num_spilled_slices + -(-self.merge_read_bytes // PIECE_BYTES)

    @property
    def read_bytes(self) -> int:
        """Spilled bytes read, with the parts of pages around slices."""
        pages = self.num_spilled_slices * PAGE_BYTES
        return self.merge_read_bytes + self.reduce_read_bytes + pages


@dataclass(frozen=True)
class Cost:
    """What a strategy is predicted to take.

    Attributes:
        traffic: What it moves.
        cpu_seconds: Of the two phases together, all CPUs busy.
        disk_seconds: All disks busy.
        network_seconds: All nodes sending.
        seconds: In all, with what overlaps.
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
    """The cost of what a strategy moves."""
    mapping, reducing = _mapping(traffic, resources), _reducing(traffic, resources)
    cpu, disk, network = (a + b for a, b in zip(mapping, reducing, strict=True))
    seconds = _overlapped(mapping) + _overlapped(reducing) + traffic.tail_bytes / MERGE_RATE
    return Cost(traffic, cpu, disk, network, seconds)


def name_of(traffic: Traffic) -> str:
    """Strategy, and how many blocks it merges."""
    merging = f" by {traffic.merge_factor}" if traffic.merge_factor > 1 else ""
    return traffic.strategy + merging


def seconds_text(seconds: float) -> str:
    """Seconds with as many digits as a prediction has."""
    return f"{seconds:,.1f} s" if seconds < 100 else f"{seconds:,.0f} s"


_Phase = tuple[float, float, float]


def _mapping(traffic: Traffic, resources: Resources) -> _Phase:
    """CPU, disk and network of maps and merges; input is taken to lie on a disk like that for spilling."""
    cpu = (
        traffic.total_bytes / MAP_RATE
        + traffic.merged_bytes / MERGE_RATE
        + traffic.written_bytes / SPILL_RATE
        + traffic.touched_bytes / TOUCH_RATE
    )
    disk = DISKS[resources.disk]
    busy = (
        (traffic.total_bytes + traffic.merge_read_bytes) / disk.read_rate
        + traffic.written_bytes / disk.write_rate
        + traffic.merge_read_bytes / PIECE_BYTES * disk.request_seconds
    )
    sent = max(0, traffic.moved_bytes - traffic.total_bytes)
    return _per_node(cpu, busy, sent, resources)


def _reducing(traffic: Traffic, resources: Resources) -> _Phase:
    """CPU, disk and network of reduces; so is output."""
    cpu = (
        traffic.total_bytes / REDUCE_RATE
        + traffic.num_tasks * TASK_SECONDS
        + traffic.num_slices * SLICE_SECONDS
    )
    disk = DISKS[resources.disk]
    read = traffic.read_bytes - traffic.merge_read_bytes
    busy = (
        read / disk.read_rate
        + traffic.num_spilled_slices * disk.request_seconds
        + traffic.output_bytes / disk.write_rate
    )
    return _per_node(cpu, busy, traffic.total_bytes, resources)


def _per_node(cpu: float, disk: float, sent: int, resources: Resources) -> _Phase:
    nodes = resources.num_nodes
    carried = sent * (nodes - 1) / nodes
    return cpu / resources.num_cpus, disk / nodes, carried / (nodes * NETWORK_RATE)


def _overlapped(phase: _Phase) -> float:
    busiest = max(phase)
    return busiest + UNHIDDEN * (sum(phase) - busiest)
