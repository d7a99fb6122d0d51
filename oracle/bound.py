"""Proof, in whole numbers, that no plan is cheaper than a given one by more than a billionth.

HiGHS computes in doubles: where quality costs 100 and a link 0.01, its word that nothing is cheaper is good
to about 10⁻⁷ and not beyond. So its word is not taken; only its prices are, and any prices will do. Let λ ≥ 0
be a price of a nanosecond and μ_v ≥ 0 one of entering v. Every plan keeps Σ delay ≤ T and enters v once at
most, so

    cost ≥ Σ_arcs (cost + λ·delay + μ_v of the node it enters) − λ·T − Σ_v μ_v

and the least of the sum on the right, over all ways through one arc, comes from two sweeps of shortest ways.
An arc for which this is not below the limit is in no plan that is below it, and goes. Usually none is left.
What is left is searched, every way of it, with the same bounds; but not twice from one place after the same
nodes, unless with less cost or less delay. All numbers are integers of 10⁻²¹; an arc's cost is rounded down,
so bounds are too, by less than 10⁻¹⁸ for any way.

It never needs the prices to be right: with bad ones more is left to search. A search that grows too long is
given up, and says so.

Sources: A. Geoffrion 1974 (Lagrangian relaxation); A. Neumaier, O. Shcherbina 2004 (safe bounds from inexact
prices); J. Beasley, N. Christofides 1989 (constrained shortest paths by such reduction).
"""

import heapq
from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

from ilp import Prices
from network import Arc, Network
from states import PATH_NODES_MAX

UNITS = 10**21

# Steps after which a search is given up: about half a minute. The longest of the first thousand worlds takes
# a twentieth.
STEPS_MAX = 500_000


class GivenUp(Exception):
    """The search was too long; nothing is proved."""


def least(start: int, near: dict[int, list[tuple[int, int]]]) -> dict[int, int]:
    """Returns the length of the shortest way from the start to each place that it reaches; no length is below
    0."""
    found, queue = {}, [(0, start)]
    while queue:
        length, place = heapq.heappop(queue)
        if place in found:
            continue
        found[place] = length
        for there, more in near[place]:
            if there not in found:
                heapq.heappush(queue, (length + more, there))
    return found


def sweep(arcs: list[Arc], lengths: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the least length from the start to each place, and from each place to the end."""
    ahead, back = defaultdict(list), defaultdict(list)
    for arc, length in zip(arcs, lengths):
        ahead[arc.tail].append((arc.head, length))
        back[arc.head].append((arc.tail, length))
    return least(Network.START, ahead), least(Network.END, back)


def within(arcs: list[Arc], lengths: list[int], room: int) -> list[int]:
    """Returns which arcs lie on a way whose length is at most `room`."""
    there, onwards = sweep(arcs, lengths)
    return [
        at
        for at, (arc, length) in enumerate(zip(arcs, lengths))
        if arc.tail in there
        and arc.head in onwards
        and there[arc.tail] + length + onwards[arc.head] <= room
    ]


class Step(NamedTuple):
    arc: Arc
    # In units; the length is the cost with what it pays.
    cost: int
    length: int


class Passed(NamedTuple):
    """What a way has come to at a place."""

    cost: int
    length: int
    delay_ns: int
    entered: frozenset[str]


class Proof:
    """The search for a plan below a limit, `None` for any plan at all."""

    def __init__(self, network: Network, prices: Prices | None, below: Fraction | None):
        self.below = below
        self.deadline_ns = network.problem.deadline_ns
        self.steps = 0
        if prices is None or below is None:
            prices = Prices(0.0, {})
        self.per_ns = round(prices.per_ns * UNITS)
        self.per_visit = {node: round(price * UNITS) for node, price in prices.per_visit.items()}
        # What a plan below the limit may come to at most, with what its arcs pay.
        self.room = None
        if below is not None:
            paid = self.per_ns * (self.deadline_ns or 0) + sum(self.per_visit.values())
            self.room = -(-below.numerator * UNITS // below.denominator) - 1 + paid
        left = self._reduced([self._step(arc) for arc in network.arcs])
        self.arcs = [step.arc for step in left]
        _, self.onwards = sweep(self.arcs, [step.length for step in left])
        _, self.delay_onwards = sweep(self.arcs, [arc.delay_ns for arc in self.arcs])
        self.near = defaultdict(list)
        for step in left:
            self.near[step.arc.tail].append(step)
        # By place and nodes entered: cost and delay with which no plan was found from there. More of both
        # finds none.
        self.tried = defaultdict(list)

    def _step(self, arc: Arc) -> Step:
        cost = arc.cost.numerator * UNITS // arc.cost.denominator
        paid = self.per_ns * arc.delay_ns
        if arc.link is not None:
            paid += self.per_visit.get(arc.node, 0)
        return Step(arc, cost, cost + paid)

    def _reduced(self, steps: list[Step]) -> list[Step]:
        """Returns what may lie on a plan below the limit: in time, and within the room."""
        count = None
        while count != len(steps):
            count = len(steps)
            arcs = [step.arc for step in steps]
            if self.deadline_ns is not None:
                kept = within(arcs, [arc.delay_ns for arc in arcs], self.deadline_ns)
                steps, arcs = [steps[at] for at in kept], [arcs[at] for at in kept]
            if self.room is not None:
                kept = within(arcs, [step.length for step in steps], self.room)
                steps = [steps[at] for at in kept]
        return steps

    def counterexample(self) -> list[Arc] | None:
        """Returns a plan below the limit, or `None`: there is none."""
        way = []
        return way if self._search(Network.START, Passed(0, 0, 0, frozenset()), way) else None

    def _search(self, place: int, so_far: Passed, way: list[Arc]) -> bool:
        """Searches on from a place, `way` being what led there; `way` is the plan if it returns `True`."""
        if place == Network.END:
            # With prices of what it does not use up, a way may come to more than the bounds say.
            return self.below is None or sum(arc.cost for arc in way) < self.below
        tried = self.tried[place, so_far.entered]
        if any(so_far.cost >= cost and so_far.delay_ns >= delay_ns for cost, delay_ns in tried):
            return False
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise GivenUp(f"{len(self.arcs)} arcs were left, and {STEPS_MAX} steps are not enough")
        for step in self.near[place]:
            beyond = self._beyond(so_far, step)
            if beyond is None:
                continue
            way.append(step.arc)
            if self._search(step.arc.head, beyond, way):
                return True
            way.pop()
        tried.append((so_far.cost, so_far.delay_ns))
        return False

    def _beyond(self, so_far: Passed, step: Step) -> Passed | None:
        """Returns what a way comes to with one arc more, if it can still become a plan below the limit."""
        arc, entered = step.arc, so_far.entered
        length = so_far.length + step.length
        if self.room is not None and length + self.onwards[arc.head] > self.room:
            return None
        delay_ns = so_far.delay_ns + arc.delay_ns
        if self.deadline_ns is not None and delay_ns + self.delay_onwards[arc.head] > self.deadline_ns:
            return None
        if arc.link is not None:
            if arc.node in entered or len(entered) == PATH_NODES_MAX - 1:
                return None
            entered = entered | {arc.node}
        return Passed(so_far.cost + step.cost, length, delay_ns, entered)
