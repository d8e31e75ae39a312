"""Every way to get teams wrong that we know: the place must be exact, and the line must say what to write."""
# ruff: noqa: E501

from __future__ import annotations

import pytest

from seatrial import stacks
from seatrial.scenario.findings import findings_of
from tests.scenario.support import NODES, mistakes, trials


def teams(queues: str, submit: str = "queue: red", more: str = "", setups: str = "stacks: [kueue]") -> str:
    """A scenario with its queues in line 4, `more` from line 5, and the submit in the last line, its fields from column 19."""
    return f"name: small\n{NODES}{setups}\nqueues: {queues}\n{more}steps: [{{submit: {{{submit}, count: 1, duration: 1s}}}}]\n"


R = "{red: {quota: {cpu: 2}}}"
C = "{red: {quota: {cpu: 2}, cohort: all}}"


def without_queues(submit: str, more: str = "") -> str:
    return teams(R, submit, more).replace(f"queues: {R}\n", "")


MISTAKES = {
    "undefined queue": (teams(R,"queue: rde"), "s.yaml:5:26: unknown queue 'rde' (did you mean 'red'?)"),
    "undefined far": (teams(R,"queue: zzz"), "s.yaml:5:26: unknown queue 'zzz' (known: red, each)"),
    "no queue": (teams(R,"priority: 5"), 's.yaml:5:18: to which queue? (add `queue:`, one of red, or each)'),
    "queue number": (teams(R,"queue: 5"), "s.yaml:5:26: '5' is not the name of a queue (write the name of a queue, or each)"),
    "each without queues": (without_queues("queue: each"), 's.yaml:4:26: each of which queues? (add `queues:` to the scenario, or remove `queue`)'),
    "queue without queues": (without_queues("queue: red"), "s.yaml:4:26: unknown queue 'red' (add `queues:` to the scenario, or remove `queue`)"),
    "queues empty": (teams("{}", "priority: 1"), "s.yaml:4:9: 'queues' is empty (write at least one, or remove it)"),
    "queue named each": (teams("{each: {quota: {cpu: 1}}}","queue: each"), "s.yaml:4:10: a queue cannot be called 'each' (`queue: each` means every queue; choose another name)"),
    "queue caps": (teams("{Red: {quota: {cpu: 1}}}","queue: Red"), "s.yaml:4:10: 'Red' cannot be the name of a queue or a cohort (use at most 40 of a-z, 0-9 and -, with ${i} for the number where there is a `count`)"),
    "queue underscore": (teams("{red_a: {quota: {cpu: 1}}}","queue: red_a"), "s.yaml:4:10: 'red_a' cannot be the name of a queue or a cohort (use at most 40 of a-z, 0-9 and -, with ${i} for the number where there is a `count`)"),
    "queue unknown key": (teams("{red: {quota: {cpu: 2}, cohrt: all}}"), "s.yaml:4:33: unknown key 'cohrt' in 'red' (did you mean 'cohort'?)"),
    "no quota": (teams("{red: {cohort: all}}"), "s.yaml:4:15: 'red' has no 'quota' (add `quota:` (the quota: resource → amount, or flavor → resource → amount in the order of trying))"),
    "quota of text": (teams("{red: {quota: much}}"), "s.yaml:4:23: 'much' is not a quota (write it like {cpu: 64, nvidia.com/gpu: 16})"),
    "quota empty": (teams("{red: {quota: {}}}"), 's.yaml:4:23: an empty quota (write it like {cpu: 64})'),
    "quota neg": (teams("{red: {quota: {cpu: -1}}}"), "s.yaml:4:29: '-1' is not a quantity (write it like 500m, 2, 50M or 256Gi)"),
    "quota no node": (teams("{red: {quota: {cpu: 2, nvidia.com/gpu: 1}}}"), 's.yaml:4:32: a quota of nvidia.com/gpu, which no node has (known: pods, cpu, memory)'),
    "quota typo": (teams("{red: {quota: {cpu: 2, memroy: 1Gi}}}"), "s.yaml:4:32: a quota of memroy, which no node has (did you mean 'memory'?)"),
    "quota 0": (teams("{red: {quota: {cpu: 0}}}"), "s.yaml:4:23: queue 'red' has an empty quota and no cohort to borrow from (write amounts above 0, or add a `cohort`)"),
    "borrow without cohort": (teams("{red: {quota: {cpu: 2}, borrow: 3}}"), "s.yaml:4:33: 'borrow' without a cohort: no queue to borrow from (add `cohort:`, or remove `borrow`)"),
    "lend without cohort": (teams("{red: {quota: {cpu: 2}, lend: any}}"), "s.yaml:4:33: 'lend' without a cohort: no queue to lend to (add `cohort:`, or remove `lend`)"),
    "borrow word": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: all}}"), "s.yaml:4:52: 'all' is not a limit (write none, any, an amount, or {cpu: 32})"),
    "borrow neg": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: -3}}"), "s.yaml:4:52: '-3' is not a limit (write none, any, an amount, or {cpu: 32})"),
    "borrow true": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: true}}"), "s.yaml:4:52: 'true' is not a limit (write none, any, an amount, or {cpu: 32})"),
    "borrow res": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: {memory: 3}}}"), 's.yaml:4:53: a limit of memory, of which there is no quota (known: cpu)'),
    "borrow res text": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: {cpu: x}}}"), "s.yaml:4:58: 'x' is not a quantity (write it like 500m, 2, 50M or 256Gi; or write none or any)"),
    "borrow list": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: [1]}}"), 's.yaml:4:52: a list is not a limit (write none, any, an amount, or {cpu: 32})'),
    "borrow nested": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: {cpu: {a: 1}}}}"), 's.yaml:4:58: a mapping is not allowed here (write it like 500m, 2, 50M or 256Gi; or write none or any)'),
    "borrow bytes": (teams("{red: {quota: {cpu: 2, memory: 1Gi}, cohort: a, borrow: 3}}"), 's.yaml:4:65: one amount for bytes and for what is counted otherwise (write {cpu: …, memory: …})'),
    "borrow fraction gpu": (teams("{red: {quota: {cpu: 2}, cohort: a, borrow: 3Q}}"), "s.yaml:4:52: '3Q' is not a limit (write none, any, an amount, or {cpu: 32})"),
    "lend more": (teams("{red: {quota: {cpu: 2}, cohort: a, lend: 3}}"), 's.yaml:4:50: lends 3 of cpu, and its quota is 2 (write 2 or less, or any)'),
    "weight 0": (teams("{red: {quota: {cpu: 2}, weight: 0}}"), "s.yaml:4:41: '0' cannot be a weight (write a number above 0, at most 1,000,000)"),
    "weight neg": (teams("{red: {quota: {cpu: 2}, weight: -1}}"), "s.yaml:4:41: '-1' cannot be a weight (write a number above 0, at most 1,000,000)"),
    "weight text": (teams("{red: {quota: {cpu: 2}, weight: heavy}}"), "s.yaml:4:41: 'heavy' is not a weight (write a number above 0, like 1 or 2.5)"),
    "borrow-first one": (teams("{red: {quota: {cpu: 2}, borrow-first: false}}"), "s.yaml:4:33: 'borrow-first' is about the next flavor, and this queue has one (remove it, or give the queue a quota of two flavors)"),
    "cohort name": (teams("{red: {quota: {cpu: 2}, cohort: A_B}}"), "s.yaml:4:41: 'A_B' cannot be the name of a queue or a cohort (use at most 40 of a-z, 0-9 and -, with ${i} for the number where there is a `count`)"),
    "ring": (teams(C,more="cohorts: {all: {parent: b}, b: {parent: c}, c: {parent: all}}\n"), "s.yaml:5:57: the parents of cohort 'all' make a ring: all → b → c → all (give one of them no parent)"),
    "ring self": (teams(C,more="cohorts: {all: {parent: all}}\n"), "s.yaml:5:25: the parents of cohort 'all' make a ring: all → all (give one of them no parent)"),
    "ring many": (teams(C,more='cohorts: {"k-${i}": {count: 2, parent: "k-${(i + 1) % 2}"}}\n'), "s.yaml:5:40: the parents of cohort 'k-0' make a ring: k-0 → k-1 → k-0 (give one of them no parent)"),
    "cohort borrow no parent": (teams(C,more="cohorts: {all: {quota: {cpu: 1}, borrow: 3}}\n"), "s.yaml:5:34: 'borrow' without a parent: no queue to borrow from (add `parent:`, or remove `borrow`)"),
    "cohort lend no quota": (teams(C,more="cohorts: {all: {parent: x, lend: 3}}\n"), "s.yaml:5:28: 'lend' goes with 'quota' (add 'quota' or remove 'lend')"),
    "cohort quota no node": (teams(C,more="cohorts: {all: {quota: {nvidia.com/gpu: 1}}}\n"), 's.yaml:5:25: a quota of nvidia.com/gpu, which no node has (known: pods, cpu, memory)'),
    "cohort weight": (teams(C,more="cohorts: {all: {weight: 0}}\n"), "s.yaml:5:25: '0' cannot be a weight (write a number above 0, at most 1,000,000)"),
    "cohorts without queues": (without_queues("priority: 1", "cohorts: {all: {weight: 1}}\n"), "s.yaml:4:1: 'cohorts' goes with 'queues' (add 'queues' or remove 'cohorts')"),
    "preemption without queues": (without_queues("priority: 1", "preemption: {reclaim: any}\n"), "s.yaml:4:1: 'preemption' goes with 'queues' (add 'queues' or remove 'preemption')"),
    "flavors without queues": (without_queues("priority: 1", "flavors: {a: {nodes: fake}}\n"), "s.yaml:4:1: 'flavors' goes with 'queues' (add 'queues' or remove 'flavors')"),
    "rule": (teams(R,more="preemption: {reclaim: lower}\n"), "s.yaml:5:23: unknown rule 'lower' (known: never, lower-priority, any)"),
    "rule key": (teams(R,more="preemption: {within: any}\n"), "s.yaml:5:14: unknown key 'within' in 'preemption' (did you mean 'within-queue'?)"),
    "rule any in queue": (teams(R,more="preemption: {within-queue: any}\n"), "s.yaml:5:28: unknown rule 'any' (known: never, lower-priority, lower-or-newer-equal-priority)"),
    "while without reclaim": (teams(R,more="preemption: {while-borrowing: lower-priority}\n"), "s.yaml:5:31: 'while-borrowing' evicts in other queues, and 'reclaim' is never (write reclaim: any or lower-priority, or remove it)"),
    "up-to alone": (teams(R,more="preemption: {reclaim: any, while-borrowing-up-to: 5}\n"), "s.yaml:5:28: 'while-borrowing-up-to' goes with 'while-borrowing' (add while-borrowing: lower-priority)"),
    "up-to name": (teams(R,more="preemption: {reclaim: any, while-borrowing: lower-priority, while-borrowing-up-to: bacth}\npriorities: {batch: 5}\n"), "s.yaml:5:84: unknown priority 'bacth' (did you mean 'batch'?)"),
    "fair text": (teams(R,more="preemption: {fair-sharing: on}\n"), "s.yaml:5:28: 'on' is neither true nor false (write true or false)"),
    "setup rule": (teams(R,setups="setups: {a: {stack: kueue, preemption: {fair-sharing: 1}}}"), "s.yaml:3:55: '1' is neither true nor false (write true or false)"),
    "setup while": (teams(R,setups="setups: {a: {stack: kueue, preemption: {while-borrowing: lower-priority}}}"), "s.yaml:3:58: 'while-borrowing' evicts in other queues, and 'reclaim' is never (write reclaim: any or lower-priority, or remove it)"),
    "flavor group": (teams(R,more="flavors: {a: {nodes: fkae}}\n"), "s.yaml:5:22: unknown node group 'fkae' (did you mean 'fake'?)"),
    "flavor unknown": (teams("{red: {quota: {a10: {cpu: 2}}}}",more="flavors: {a100: {nodes: fake}}\n"), "s.yaml:4:29: unknown flavor 'a10' (did you mean 'a100'?)"),
    "flavor none": (teams("{red: {quota: {a10: {cpu: 2}}}}"), "s.yaml:4:29: unknown flavor 'a10' (add `flavors:` to the scenario, or write {cpu: 64})"),
    "flavor mix": (teams("{red: {quota: {a: {cpu: 2}, cpu: 3}}}",more="flavors: {a: {nodes: fake}}\n"), "s.yaml:4:42: 'cpu' is not an amount per resource (write every flavor as {cpu: 64})"),
    "flavor amounts": (teams("{red: {quota: {a: {cpu: x}}}}",more="flavors: {a: {nodes: fake}}\n"), "s.yaml:4:33: 'x' is not a quantity (write it like 500m, 2, 50M or 256Gi)"),
    "flavor resource": (teams("{red: {quota: {a: {nvidia.com/gpu: 2}}}}",more="flavors: {a: {nodes: fake}}\n"), "s.yaml:4:28: a quota of nvidia.com/gpu, which no node of flavor 'a' has (known: pods, cpu, memory)"),
    "flavor borrow": (teams("{red: {quota: {a: {cpu: 2}}, cohort: x, borrow: {a: 1, b: 2}}}",more="flavors: {a: {nodes: fake}}\n"), "s.yaml:4:64: no quota of flavor 'b' (known: a)"),
    "priority name": (teams(R,"queue: red, priority: urgnet",more="priorities: {urgent: 5}\n"), "s.yaml:6:41: unknown priority 'urgnet' (did you mean 'urgent'?)"),
    "priority none": (teams(R,"queue: red, priority: urgent"), "s.yaml:5:41: unknown priority 'urgent' (write a number, or add `priorities:` to the scenario)"),
    "priority float": (teams(R,"queue: red, priority: 1.5"), "s.yaml:5:41: '1.5' is not a priority (write a whole number, or a name of `priorities`)"),
    "priorities high": (teams(R,more="priorities: {urgent: 2000000000}\n"), 's.yaml:5:22: 2000000000 is more than 1000000000 (write 1000000000 or less)'),
    "priorities caps": (teams(R,more="priorities: {Urgent: 5}\n"), "s.yaml:5:14: 'Urgent' cannot be a name here (use at most 40 of a-z, 0-9 and -; Kubernetes objects are named after it)"),
    "priorities list": (teams(R,more="priorities: [a]\n"), 's.yaml:5:13: a list instead of a mapping (write it as {key: value} or as indented `key: value` lines)'),
    "class odd": (teams(R,'queue: red, class: "a b"'), "s.yaml:5:38: 'a b' cannot be a name here (use at most 60 letters, digits and - . _ between them)"),
    "class slash": (teams(R,'queue: red, class: a/b'), "s.yaml:5:38: 'a/b' cannot be a name here (use at most 60 letters, digits and - . _ between them)"),
    "class equals": (teams(R,'queue: red, class: "a=b"'), "s.yaml:5:38: 'a=b' cannot be a name here (use at most 60 letters, digits and - . _ between them)"),
    "class umlaut": (teams(R,'queue: red, class: größe'), "s.yaml:5:38: 'größe' cannot be a name here (use at most 60 letters, digits and - . _ between them)"),
    "checkpoint 0": (teams(R,'queue: red, checkpoint: 0s'), "s.yaml:5:43: '0s' takes no time (write a duration above zero, like 10s)"),
    "count without i": (teams("{red: {quota: {cpu: 2}, count: 3}}"), "s.yaml:4:10: 3 queues called 'red' (write ${i} into the name, like red-${i})"),
    "i without count": (teams('{"red-${i}": {quota: {cpu: 2}}}',"queue: red-0"), "s.yaml:4:10: '${i}' in a name without `count` (add how many there are, like count: 6)"),
    "i without count in value": (teams('{red: {quota: {cpu: "${i}"}}}'), "s.yaml:4:29: no param 'i' (add `count:` beside it)"),
    "count 0": (teams('{"red-${i}": {count: 0, quota: {cpu: 2}}}',"queue: red-0"), 's.yaml:4:30: 0 is less than 1 (write 1 or more)'),
    "count many": (teams('{"red-${i}": {count: 100000, quota: {cpu: 2}}}',"queue: red-0"), 's.yaml:4:30: 100000 is more than 10000 (write 10000 or less)'),
    "two alike": (teams('{"red-${i}": {count: 2, quota: {cpu: 2}}, red-1: {quota: {cpu: 2}}}',"queue: red-0"), "s.yaml:4:51: two queues are called 'red-1' (give each a different name)"),
    "wrong later": (teams('{"red-${i}": {count: 3, quota: {cpu: "${3 - 2 * i}"}}}',"queue: red-0"), "s.yaml:4:46: '-1' is not a quantity (write it like 500m, 2, 50M or 256Gi)"),
    "weight later": (teams('{"red-${i}": {count: 3, quota: {cpu: 1}, weight: "${2 - i}"}}',"queue: red-0"), "s.yaml:4:58: '0' cannot be a weight (write a number above 0, at most 1,000,000)"),
    "param in i": (teams('{"red-${i}": {count: 3, quota: {cpu: "${i * siez}"}}}',"queue: red-0",more="params: {size: 3}\n"), "s.yaml:4:46: ${i * siez}: unknown name 'siez' (did you mean 'size'?)"),
    "long names": (teams('{a2345678901234567890123456789012345678: {quota: {cpu: 2}}}',"queue: each, name: b2345678901234567890123456789012345678"), 's.yaml:5:38: workloads called b2345678901234567890123456789012345678-a2345678901234567890123456789012345678-0 have names longer than a Job may have (give the phase or the queues shorter names)'),
    "queue of 41": (teams('{a2345678901234567890123456789012345678901: {quota: {cpu: 2}}}',"queue: each"), "s.yaml:4:10: 'a234567890123456789012345678901234567...' cannot be the name of a queue or a cohort (use at most 40 of a-z, 0-9 and -, with ${i} for the number where there is a `count`)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_wrong_teams(text: str, expected: str) -> None:
    found = mistakes(text)
    assert len(found) == 1, found
    assert found[0] == expected


def test_all_mistakes_of_teams_are_reported_together() -> None:
    text = teams("{red: {quota: {cpu: x}, weight: 0}, blue: {cohort: A}}", "queue: rde", "preemption: {reclaim: all}\n")
    assert [line.partition(": ")[0] for line in mistakes(text)] == [
        "s.yaml:4:29", "s.yaml:4:41", "s.yaml:4:51", "s.yaml:4:60", "s.yaml:5:23", "s.yaml:6:26",
    ]  # fmt: skip


def findings(text: str) -> list[str]:
    return [line for trial in trials(text) for line in findings_of(trial)]


FINDINGS = {
    "a lone queue in a cohort": (teams(C), "cohort 'all' has one queue and no quota: the queue has nothing to borrow"),
    "larger than the quota": (teams(R, "queue: red, pods: 3, requests: {cpu: 1}"), "submit-1: queue 'red' may use cpu 2 at most, and a workload of 3 pods needs 3: it is never admitted"),
    "larger than the borrowing limit": (teams("{red: {quota: {cpu: 2}, cohort: all, borrow: 1}, blue: {quota: {cpu: 2}, cohort: all}}", "queue: red, pods: 4, requests: {cpu: 1}"), "submit-1: queue 'red' may use cpu 3 at most, and a workload of 4 pods needs 4: it is never admitted"),
    "a flavor without quota": (teams(R, more="flavors: {a: {nodes: fake}, b: {nodes: fake}}\n").replace("{cpu: 2}", "{a: {cpu: 2}}"), "flavor 'b' has no quota in any queue"),
    "while borrowing with fair sharing": (teams(R, more="preemption: {reclaim: any, while-borrowing: lower-priority, fair-sharing: true}\n"), "set-up 'kueue': `while-borrowing` has no effect with fair sharing"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FINDINGS.values(), ids=FINDINGS.keys())
def test_what_is_valid_and_odd_is_said_before_the_run(text: str, expected: str) -> None:
    assert findings(text) == [expected]


def test_only_kueue_never_admits_what_requests_a_resource_without_quota() -> None:
    text = teams(R, "queue: red, requests: {cpu: 1, memory: 1Gi}", setups="stacks: [kueue, default]")
    said = {
        trial.setup.name: [*findings_of(trial), *stacks.find(trial.setup.stack).findings(trial)]
        for trial in trials(text)
    }
    never = "submit-1: queue 'red' has no quota of memory, which its workloads request: Kueue never admits them (add memory to its `quota`)"
    assert said == {"kueue": [f"set-up 'kueue': {never}"], "default": []}


def test_what_fits_by_borrowing_is_no_finding() -> None:
    queues = "{red: {quota: {cpu: 2}, cohort: all}, blue: {quota: {cpu: 6}, cohort: all, borrow: none}}"
    assert not findings(teams(queues, "queue: red, pods: 4, requests: {cpu: 1}"))
    assert not findings(teams(queues, "queue: blue, pods: 6, requests: {cpu: 1}"))
