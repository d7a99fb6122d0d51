"""The integer programme, built for HiGHS and solved to a gap of nothing.

The rows are those that `network.py` describes. The deadline's row is divided by the deadline, for nanoseconds
beside ones would cost digits. HiGHS works in doubles, so what it calls best is best to about its tolerances,
which are set as tight as it keeps them; what is certain beyond that is said in `bound.py`.

Times are of the processor: on a busy machine what takes long is interrupted and what is short is not, so
clocks on the wall would flatter the planner.
"""

import time
from dataclasses import dataclass

import highspy
import numpy

from network import Arc, Network

OPTIONS = {
    "threads": 1,
    # Its presolve takes ten times what it saves on networks: 0.9 s without, 5 to 20 s with it, at 30 nodes
    # and 24 states.
    "presolve": "off",
    # The default is to stop within 10⁻⁴ of the best.
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


@dataclass
class Solved:
    # `None`: there is no plan.
    way: list[Arc] | None
    seconds: float
    # Whether it ended before the limit of time.
    ended: bool = True


@dataclass
class Prices:
    """What the relaxation pays for a nanosecond of the deadline, and for entering each node again; 0 at
    least."""

    per_ns: float
    per_visit: dict[str, float]


class Programme:
    """The model of one network, which has arcs."""

    def __init__(self, network: Network):
        self.network = network
        self.rows, self.low, self.high = [], [], []
        for entering, leaving, remains in network.balances():
            row = [(at, 1.0) for at in leaving] + [(at, -1.0) for at in entering]
            self._row(row, remains, remains)
        self.first_visit = len(self.rows)
        self.nodes = []
        for node, entering in network.visits():
            self.nodes.append(node)
            self._row([(at, 1.0) for at in entering], -numpy.inf, 1)
        self.first_sum = len(self.rows)
        for terms, bound in network.sums():
            scale = max(bound, 1)
            self._row([(at, weight / scale) for at, weight in terms], -numpy.inf, bound / scale)

    def _row(self, terms, low, high):
        self.rows.append(terms)
        self.low.append(low)
        self.high.append(high)

    def _highs(self, is_whole: bool) -> highspy.Highs:
        count = len(self.network.arcs)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = count, len(self.rows)
        lp.col_cost_ = numpy.array([float(arc.cost) for arc in self.network.arcs])
        lp.col_lower_, lp.col_upper_ = numpy.zeros(count), numpy.ones(count)
        lp.row_lower_, lp.row_upper_ = numpy.array(self.low, float), numpy.array(self.high, float)
        matrix = lp.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = numpy.cumsum([0] + [len(row) for row in self.rows])
        matrix.index_ = numpy.array([at for row in self.rows for at, _ in row])
        matrix.value_ = numpy.array([weight for row in self.rows for _, weight in row])
        if is_whole:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * count
        highs = highspy.Highs()
        highs.silent()
        for name, value in OPTIONS.items():
            highs.setOptionValue(name, value)
        highs.passModel(lp)
        return highs

    def prepare(self, seconds_max: float = 600.0):
        """Builds the model, and returns what solves it."""
        highs = self._highs(is_whole=True)
        highs.setOptionValue("time_limit", seconds_max)

        def solve() -> Solved:
            start = time.process_time()
            highs.run()
            seconds = time.process_time() - start
            status = highs.getModelStatus()
            if status == highspy.HighsModelStatus.kOptimal:
                values = highs.getSolution().col_value
                used = [at for at, value in enumerate(values) if value > 0.5]
                return Solved(self.network.way(used), seconds)
            if status == highspy.HighsModelStatus.kInfeasible:
                return Solved(None, seconds)
            if status == highspy.HighsModelStatus.kTimeLimit:
                return Solved(None, seconds, ended=False)
            raise AssertionError(f"HiGHS ended with {highs.modelStatusToString(status)}")

        return solve

    def relaxation_seconds(self) -> float:
        """Returns how long the relaxation alone takes, which no branching on it can beat."""
        highs = self._highs(is_whole=False)
        start = time.process_time()
        highs.run()
        return time.process_time() - start

    def prices(self) -> Prices | None:
        """Solves the relaxation, where arcs may be used in part, and returns its prices; `None` if it has no
        solution."""
        highs = self._highs(is_whole=False)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        # Of a row `≤` in a minimisation the dual is 0 at most.
        paid = [max(0.0, -dual) for dual in highs.getSolution().row_dual]
        deadline = self.network.problem.deadline_ns
        return Prices(
            per_ns=paid[self.first_sum] / max(deadline, 1) if deadline is not None else 0.0,
            per_visit=dict(zip(self.nodes, paid[self.first_visit : self.first_sum])),
        )
