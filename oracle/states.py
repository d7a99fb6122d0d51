"""The states of a stream, what adapters make of them, and where each may be: docs/concepts/planner.md §2 and
§3, in fractions.

A state is `(q, p, s)`: layers kept, packed, sealed.
"""

from fractions import Fraction

from world import Link, Problem

# How far a rate may exceed a link's, relatively (§2, constraint 1).
RATE_TOLERANCE = Fraction(1, 10**9)

# Nodes of a path (§2, constraint 6).
PATH_NODES_MAX = 32

State = tuple[int, bool, bool]


class States:
    def __init__(self, problem: Problem):
        self.problem = problem
        self.all = [
            (q, p, s)
            for q in range(1, len(problem.layers) + 1)
            for p in (False, True)
            for s in (False, True)
        ]
        self.start = (len(problem.layers), False, False)
        self.rate_bps = {state: self._rate_bps(state) for state in self.all}
        self.steps = {state: list(self._steps(state)) for state in self.all}

    def _rate_bps(self, state: State) -> Fraction:
        q, packed, sealed = state
        rate = sum(rate for rate, _ in self.problem.layers[:q])
        if packed:
            rate *= self.problem.pack_ratio
        if sealed:
            rate *= 1 + self.problem.seal_overhead
        return rate

    def _steps(self, state: State):
        """Yields each adapter that works in a state: its text, the state after it, its cost."""
        q, packed, sealed = state
        mbps = self.rate_bps[state] / 10**6

        def step(kind, text, after):
            return text, after, self.problem.kappa[kind] * mbps

        for kept in range(1, q):
            yield step("keep", f"keep:{kept}", (kept, packed, sealed))
        if not sealed:
            if packed:
                yield step("unpack", "unpack", (q, False, False))
            else:
                yield step("pack", "pack", (q, True, False))
            yield step("seal", "seal", (q, packed, True))
        else:
            yield step("open", "open", (q, packed, False))

    def lost(self, layers: int) -> Fraction:
        """Returns the cost of the quality that delivering so many layers lacks."""
        lacking = 1 - sum(utility for _, utility in self.problem.layers[:layers])
        return self.problem.quality * max(lacking, Fraction(0))

    def delivers(self, state: State) -> bool:
        q, packed, sealed = state
        return not packed and not sealed and q >= self.problem.least

    def may_be_at(self, node: str, state: State) -> bool:
        """Returns whether a node may see the stream so: an untrusted one sees nothing that is not sealed."""
        return not self.problem.confidential or self.problem.nodes[node].trusted or state[2]

    def may_cross(self, link: Link, state: State) -> bool:
        if self.rate_bps[state] > link.rate_bps * (1 + RATE_TOLERANCE):
            return False
        trusted = all(self.problem.nodes[end].trusted for end in link.ends)
        return state[2] or not self.problem.confidential or (link.secure and trusted)
