"""A world file of one stream as exact numbers.

Every number of the file is read as the decimal that stands there, into a `Fraction`: nothing is rounded
before the model or the cost is made of it.

It reads what `docs/reference/worlds.md` says, for itself: no line of the planner is behind it. It refuses
what the oracle has no mathematics for, so that a world is never judged by half of what it says.
"""

from dataclasses import dataclass
from fractions import Fraction

RATES_BPS = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
TIMES_NS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}

KAPPA = {"keep": "0.1", "pack": "1.0", "unpack": "0.5", "seal": "0.4", "open": "0.4"}
WEIGHTS = {**KAPPA, "quality": "100.0", "pack_ratio": "0.5", "seal_overhead": "0.02"}

# What §6 knows. The planner does not use those behind the line.
KEYS = {
    "world": {"weights", "node", "link", "stream", "|", "length", "at"},
    "weights": set(WEIGHTS),
    "node": {"slots", "trusted", "|", "clock_offset", "clock_drift_ppm", "copy_time"},
    "link": {
        "ends", "rate", "delay", "secure", "up",
        "|", "jitter", "ordered", "reorder", "loss", "burst", "burst_loss", "queue",
    },  # fmt: skip
    "stream": {
        "from", "to", "layers", "needs", "pack_ratio", "seal_overhead",
        "|", "name", "importance", "traffic",
    },  # fmt: skip
    "needs": {
        "confidential", "deadline", "least_layers",
        "|", "reliability", "order", "session", "weight", "hold", "hold_size",
    },  # fmt: skip
}

# Slots above this count as so many.
SLOTS_MAX = 16


class Unknown(Exception):
    """A world that the oracle cannot judge."""


@dataclass(frozen=True)
class Node:
    slots: int
    trusted: bool


@dataclass(frozen=True)
class Link:
    ends: tuple[str, str]
    rate_bps: Fraction
    delay_ns: int
    secure: bool


@dataclass(frozen=True)
class Problem:
    """The symbols of §1. Links that are down are not among `links`."""

    nodes: dict[str, Node]
    links: list[Link]
    source: str
    sink: str
    layers: list[tuple[Fraction, Fraction]]  # bit/s, utility
    least: int
    deadline_ns: int | None
    confidential: bool
    pack_ratio: Fraction
    seal_overhead: Fraction
    kappa: dict[str, Fraction]
    quality: Fraction


def number(value) -> Fraction:
    return Fraction(value)


def with_unit(text: str, units: dict[str, int]) -> Fraction:
    amount, unit = text.split()
    return Fraction(amount) * units[unit]


def time_ns(text: str) -> int:
    nanos = with_unit(text, TIMES_NS)
    if nanos.denominator != 1:
        raise Unknown(f"`{text}` is no whole number of nanoseconds")
    return int(nanos)


def known(kind: str, table: dict) -> dict:
    for key in table:
        if key not in KEYS[kind]:
            raise Unknown(f"{kind}.{key}: the oracle has no mathematics for this key")
    return table


def read_link(table: dict) -> Link:
    return Link(
        ends=tuple(table["ends"]),
        rate_bps=with_unit(table["rate"], RATES_BPS),
        delay_ns=time_ns(table.get("delay", "0 ns")),
        secure=table.get("secure", True),
    )


def read(world: dict) -> Problem:
    """Reads a world from what `json.loads` made of it, with `parse_float=Fraction`."""
    known("world", world)
    weights = known("weights", world.get("weights", {}))
    weight = {key: number(weights.get(key, value)) for key, value in WEIGHTS.items()}
    nodes = {
        name: Node(min(table.get("slots", SLOTS_MAX), SLOTS_MAX), table.get("trusted", True))
        for name, table in world["node"].items()
        if known("node", table) is table
    }
    links = [known("link", table) for table in world["link"]]
    streams = [known("stream", table) for table in world["stream"]]
    if len(streams) != 1 or len(streams[0]["to"]) != 1:
        raise Unknown("the oracle plans one stream to one sink")
    stream = streams[0]
    needs = known("needs", stream.get("needs", {}))
    deadline = needs.get("deadline", "never")
    own = {key: stream.get(key) for key in ("pack_ratio", "seal_overhead")}
    own = {key: weight[key] if value is None else number(value) for key, value in own.items()}
    return Problem(
        nodes=nodes,
        links=[read_link(table) for table in links if table.get("up", True)],
        source=stream["from"],
        sink=stream["to"][0],
        layers=[
            (with_unit(layer["rate"], RATES_BPS), number(layer["utility"]))
            for layer in stream["layers"]
        ],
        least=needs.get("least_layers", 1),
        deadline_ns=None if deadline == "never" else time_ns(deadline),
        confidential=needs.get("confidential", False),
        kappa={kind: weight[kind] for kind in KAPPA},
        quality=weight["quality"],
        **own,
    )
