"""A reported plan, carried out on paper: whether it keeps every constraint of docs/concepts/planner.md §2,
and its true cost.

The cost is a fraction, so a reported cost is compared with the number itself and not with another rounding of
it.
"""

from fractions import Fraction
from itertools import product

from states import PATH_NODES_MAX, States
from world import Problem

# How far a reported cost may be from the true one.
COST_ERROR_MAX = Fraction(1, 10**9)


class Broken(Exception):
    """The plan breaks a constraint, or is not what it says."""


def run_adapters(states: States, node: str, state, texts: list[str]):
    """Returns the state that a node's adapters lead to, and their cost."""
    if len(texts) > states.problem.nodes[node].slots:
        raise Broken(f"{node} has fewer slots than {texts}")
    cost = Fraction(0)
    for text in texts:
        steps = {text: (after, cost) for text, after, cost in states.steps[state]}
        if text not in steps:
            raise Broken(f"{text} does not work in {state} at {node}")
        state, more = steps[text]
        cost += more
        if not states.may_be_at(node, state):
            raise Broken(f"{node} may not see {state}")
    return state, cost


def true_cost(problem: Problem, report: dict) -> Fraction:
    """Returns the cost of a reported plan; a report does not tell parallel links apart, so of the cheapest
    that it may mean."""
    states = States(problem)
    path, adapters = report["path"], {at["node"]: at["adapters"] for at in report["placements"]}
    if path[:1] != [problem.source] or path[-1:] != [problem.sink]:
        raise Broken(f"the path {path} does not lead from source to sink")
    if len(set(path)) < len(path) or len(path) > PATH_NODES_MAX or not adapters.keys() <= set(path):
        raise Broken(f"the path {path} is no simple, short path with every adapter on it")
    state, cost = states.start, Fraction(0)
    if not states.may_be_at(path[0], state):
        raise Broken("the source may not see the stream")
    choices = []
    for at, node in enumerate(path):
        if not states.may_be_at(node, state):
            raise Broken(f"{node} may not see {state}")
        state, more = run_adapters(states, node, state, adapters.get(node, []))
        cost += more
        if at + 1 == len(path):
            break
        ends = {node, path[at + 1]}
        links = [link for link in problem.links if set(link.ends) == ends]
        links = [link for link in links if states.may_cross(link, state)]
        if not links:
            raise Broken(f"no link from {node} to {path[at + 1]} may carry {state}")
        choices.append([(states.rate_bps[state] / link.rate_bps, link.delay_ns) for link in links])
    if not states.delivers(state) or state[0] != report["layers"]:
        raise Broken(f"it delivers {state}")
    ways = [(sum(c for c, _ in way), sum(d for _, d in way)) for way in product(*choices)]
    in_time = [c for c, d in ways if problem.deadline_ns is None or d <= problem.deadline_ns]
    if not in_time:
        raise Broken("it is late")
    return cost + states.lost(state[0]) + min(in_time)
