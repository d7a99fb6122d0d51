"""The problem as a flow of one unit through a network of places, with side constraints: what both solvers are
given.

A place is a node, how many of its slots are used, and a state. An arc is an adapter (one slot more, another
state), a link (the far node, no slot used), or delivery. So a way of one unit from the start to the end is a
walk with adapters that obeys rates, slots, confidentiality and delivery by what arcs there are. What a flow
cannot say is left to sums over arcs, with a binary variable x for each:

    visits      for every node,    Σ x of links that enter it ≤ 1;  0 for the source, and none leaves the sink
    deadline    Σ delay · x ≤ T
    length      Σ x of links ≤ 31

Subtours need no constraint of their own. A whole flow that enters no node twice is a simple path and,
perhaps, rings beside it, which share no node with it; a ring only adds to cost, delay and length, for every
link costs R/B > 0. So without the ring the flow is as good a plan, and a cheaper one: a best flow has none.

Places that cannot be reached, or from which delivery cannot, are left out; with them go the arcs that no flow
uses.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from states import PATH_NODES_MAX, States
from world import Problem


@dataclass(frozen=True)
class Arc:
    tail: int
    head: int
    cost: Fraction
    # Of an adapter: its text and node; of a link: its place in the file and the node it enters.
    adapter: str | None = None
    node: str | None = None
    link: int | None = None
    delay_ns: int = 0


class Network:
    START, END = 0, 1

    def __init__(self, problem: Problem):
        self.problem = problem
        self.states = States(problem)
        self._places = {}
        self.arcs = self._useful(self._all_arcs())

    def _place(self, *place) -> int:
        return self._places.setdefault(place, len(self._places) + 2)

    def _all_arcs(self) -> list[Arc]:
        arcs = []
        for name, node in self.problem.nodes.items():
            arcs += self._arcs_within(name, node.slots)
        for at, link in enumerate(self.problem.links):
            arcs += self._arcs_along(at, link)
        return arcs

    def _arcs_within(self, name: str, slots: int):
        states = self.states
        allowed = [state for state in states.all if states.may_be_at(name, state)]
        if name == self.problem.source and states.start in allowed:
            yield Arc(self.START, self._place(name, 0, states.start), Fraction(0))
        for used in range(slots + 1):
            for state in allowed:
                here = self._place(name, used, state)
                if name == self.problem.sink:
                    if states.delivers(state):
                        yield Arc(here, self.END, states.lost(state[0]))
                else:
                    yield Arc(here, self._place(name, "leaves", state), Fraction(0))
                if used == slots:
                    continue
                for text, after, cost in states.steps[state]:
                    if states.may_be_at(name, after):
                        there = self._place(name, used + 1, after)
                        yield Arc(here, there, cost, adapter=text, node=name)

    def _arcs_along(self, at: int, link):
        problem, states = self.problem, self.states
        carried = [state for state in states.all if states.may_cross(link, state)]
        for tail, head in (link.ends, link.ends[::-1]):
            if tail == problem.sink or head == problem.source:
                continue
            for state in carried:
                if states.may_be_at(tail, state) and states.may_be_at(head, state):
                    yield Arc(
                        self._place(tail, "leaves", state),
                        self._place(head, 0, state),
                        states.rate_bps[state] / link.rate_bps,
                        node=head,
                        link=at,
                        delay_ns=link.delay_ns,
                    )

    def _useful(self, arcs: list[Arc]) -> list[Arc]:
        ahead, back = defaultdict(list), defaultdict(list)
        for arc in arcs:
            ahead[arc.tail].append(arc.head)
            back[arc.head].append(arc.tail)
        there, from_there = reached(self.START, ahead), reached(self.END, back)
        return [arc for arc in arcs if arc.tail in there and arc.head in from_there]

    def balances(self):
        """Yields, for each place, the arcs that enter it, those that leave it, and what must remain: out −
        in."""
        entering, leaving = defaultdict(list), defaultdict(list)
        for at, arc in enumerate(self.arcs):
            leaving[arc.tail].append(at)
            entering[arc.head].append(at)
        for place in sorted(entering.keys() | leaving.keys()):
            remains = {self.START: 1, self.END: -1}.get(place, 0)
            yield entering[place], leaving[place], remains

    def visits(self):
        """Returns each node with the links' arcs that enter it, of which one at most may be used."""
        entering = defaultdict(list)
        for at, arc in enumerate(self.arcs):
            if arc.link is not None:
                entering[arc.node].append(at)
        return entering.items()

    def sums(self):
        """Yields sums that are bounded, as a list of (arc, weight) and the bound: delay in ns, and length."""
        links = [(at, arc) for at, arc in enumerate(self.arcs) if arc.link is not None]
        if self.problem.deadline_ns is not None:
            yield [(at, arc.delay_ns) for at, arc in links], self.problem.deadline_ns
        if len(self.problem.nodes) > PATH_NODES_MAX:
            yield [(at, 1) for at, _ in links], PATH_NODES_MAX - 1

    def way(self, used: list[int]) -> list[Arc]:
        """Returns the arcs of a solution in the order of the way; fails if they are not one way."""
        next_arc = {self.arcs[at].tail: self.arcs[at] for at in used}
        way, place = [], self.START
        while place != self.END:
            way.append(next_arc.pop(place))
            place = way[-1].head
        if next_arc:
            raise AssertionError(f"{len(next_arc)} arcs beside the way: a ring costs nothing")
        return way


def reached(start: int, near: dict[int, list[int]]) -> set[int]:
    seen, todo = {start}, [start]
    while todo:
        for place in near[todo.pop()]:
            if place not in seen:
                seen.add(place)
                todo.append(place)
    return seen
