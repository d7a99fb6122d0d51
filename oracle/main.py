"""Judges the exact planner by an integer programme: a world and a plan a line in, a verdict a line out.

usage: main.py judge             {"seed", "world", "report"} →
                                 {"seed", "nodes", "feasible", "differs", "ilp_ms", …}
       main.py time SECONDS_MAX  {"world"} → {"build_ms", "ilp_ms", "relaxation_ms", "ended", "cost"}

A plan is found equal to the best if all of this holds, else `differs` says what does not:

1. the reported plan keeps every constraint, and costs what it says to 10⁻⁹, in fractions (`plan.py`);
2. HiGHS finds a plan that costs the same to 10⁻⁹, in fractions too, or none where none is reported
   (`ilp.py`);
3. no plan costs less by more than 10⁻⁹, in whole numbers; none exists where none is reported (`bound.py`).
"""

import json
import sys
import time
from fractions import Fraction

import world
from bound import GivenUp, Proof
from ilp import Programme, Solved
from network import Network
from plan import COST_ERROR_MAX, Broken, true_cost


class Differs(Exception):
    """Planner and programme do not agree."""


def cost_of(way) -> Fraction:
    return sum((arc.cost for arc in way), Fraction(0))


def shown(way) -> str:
    """Returns a way as words: adapters and nodes."""
    words = [arc.adapter or f"→ {arc.node}" for arc in way if arc.adapter or arc.link is not None]
    return f"{float(cost_of(way))!r} by {' '.join(words)}"


def compare(problem, report: dict, solved: Solved, prove):
    """Compares a report with what was solved; `prove` searches for a plan below a cost, or for any."""
    if not report["feasible"]:
        if solved.way is not None:
            raise Differs(f"no plan is reported, the programme has one for {shown(solved.way)}")
        below = None
    else:
        try:
            cost = true_cost(problem, report)
        except Broken as broken:
            raise Differs(f"the reported plan is none: {broken}") from broken
        if abs(cost - report["cost"]) > COST_ERROR_MAX:
            raise Differs(f"the plan costs {float(cost)!r}, and is said to cost {float(report['cost'])!r}")
        if solved.way is None:
            raise Differs(f"a plan is reported for {float(cost)!r}, the programme has none")
        if abs(cost_of(solved.way) - cost) > COST_ERROR_MAX:
            raise Differs(f"the plan costs {float(cost)!r}, the programme's {shown(solved.way)}")
        below = cost - COST_ERROR_MAX
    cheaper = prove(below)
    if cheaper is not None:
        raise Differs(f"the search has a plan for {shown(cheaper)}")


def judge(line: dict) -> dict:
    problem = world.read(line["world"])
    verdict = {"seed": line["seed"], "nodes": len(problem.nodes), "feasible": line["report"]["feasible"]}
    verdict |= {"elapsed_us": float(line["report"]["elapsed_us"]), "differs": None, "unproved": None}
    network = Network(problem)
    programme = Programme(network) if network.arcs else None
    start = time.process_time()
    solved = programme.prepare()() if programme else Solved(None, 0.0)
    verdict["ilp_ms"] = 1e3 * (time.process_time() - start)
    steps = 0

    def prove(below):
        nonlocal steps
        proof = Proof(network, programme.prices() if programme else None, below)
        try:
            return proof.counterexample()
        finally:
            steps = proof.steps

    try:
        compare(problem, line["report"], solved, prove)
    except Differs as differs:
        verdict["differs"] = str(differs)
    except GivenUp as given_up:
        verdict["unproved"] = str(given_up)
    return verdict | {"arcs": len(network.arcs), "steps": steps}


def measure(line: dict, seconds_max: float) -> dict:
    start = time.process_time()
    network = Network(world.read(line["world"]))
    programme = Programme(network)
    solve = programme.prepare(seconds_max)
    build = time.process_time() - start
    solved = solve()
    return {
        "build_ms": 1e3 * build,
        "ilp_ms": 1e3 * solved.seconds,
        "relaxation_ms": 1e3 * programme.relaxation_seconds(),
        "ended": solved.ended,
        "cost": None if solved.way is None else float(cost_of(solved.way)),
    }


def main(words: list[str]):
    answer = judge if words == ["judge"] else lambda line: measure(line, float(words[1]))
    for text in sys.stdin:
        print(json.dumps(answer(json.loads(text, parse_float=Fraction))), flush=True)


main(sys.argv[1:])
