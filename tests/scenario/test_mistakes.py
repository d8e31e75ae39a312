"""Every way to get a scenario wrong that we know: the place must be exact, and the line must say what to write.

The cases are tables, a line each, however long: so they can be compared with one look.
"""
# ruff: noqa: E501

from __future__ import annotations

import pytest

from seatrial.model.errors import UsageProblem
from tests.scenario.support import NODES, SMALL, STEPS, mistakes, trials, with_steps, with_submit

TOP = {
    "unknown key": (SMALL + "repaet: 3\n", "s.yaml:5:1: unknown key 'repaet' (did you mean 'repeat'?)"),
    "key far from all": (SMALL + "zzz: 3\n", "s.yaml:5:1: unknown key 'zzz' (known: name, about, params, nodes,"),
    "key twice": (SMALL + "name: b\n", "s.yaml:5:1: 'name' is a duplicate key (the first is in line 1; remove one)"),
    "merge key": (SMALL + "<<: {a: b}\n", "s.yaml:5:1: merge keys (<<) are not supported (write the fields out)"),
    "no value": (SMALL + "about:\n", "s.yaml:5:7: 'about' has no value (write a value, or remove it)"),
    "no name": (SMALL[12:], "s.yaml:1:1: the scenario has no 'name' (add `name:` (name of the scenario))"),
    "no nodes": ("name: a\nstacks: [default]\n" + STEPS, "s.yaml:1:1: the scenario has no 'nodes' (add `nodes:` (groups of"),
    "no steps": ("name: a\nstacks: [default]\n" + NODES, "s.yaml:1:1: the scenario has no 'steps' (add `steps:` (steps, run one after another"),
    "no stacks": ("name: a\n" + NODES + STEPS, "s.yaml:1:1: the scenario has neither 'stacks' nor 'setups' (add stacks: [default])"),
    "a name with a slash": ("name: a/b\n" + SMALL[12:], "s.yaml:1:7: 'a/b' cannot be a name here (use at most 60"),
    "a name that varies": ('name: "${x}"\n' + SMALL[12:], "s.yaml:1:7: '${x}' cannot be a name here (use at most 60"),
    "repeat of zero": (SMALL + "repeat: 0\n", "s.yaml:5:9: 0 is less than 1 (write 1 or more)"),
    "repeat of text": (SMALL + "repeat: often\n", "s.yaml:5:9: 'often' is not a whole number (write one like 10)"),
    "repeat of true": (SMALL + "repeat: true\n", "s.yaml:5:9: 'true' is not a whole number (write one like 10)"),
    "negative seed": (SMALL + "seed: -1\n", "s.yaml:5:7: -1 is less than 0 (write 0 or more)"),
    "steps as mapping": (f"name: a\n{NODES}stacks: [default]\nsteps: {{a: b}}\n", "s.yaml:4:8: a mapping instead of a list (write it as [a, b]"),
    "steps empty": (f"name: a\n{NODES}stacks: [default]\nsteps: []\n", "s.yaml:4:8: 'steps' is empty (write at least one"),
    "client as text": (SMALL + "client: fast\n", "s.yaml:5:9: 'fast' instead of a mapping (write it as {key: value}"),
    "client rate": (SMALL + "client: {rate: 10}\n", "s.yaml:5:16: '10' is not a rate (write it like 10/s, 0.5/s or 30/m)"),
    "stack": (SMALL.replace("[default]", "[defualt]"), "s.yaml:3:10: unknown stack 'defualt' (did you mean 'default'?)"),
    "stack twice": (SMALL.replace("[default]", "[mcad, mcad]"), "s.yaml:3:1: 'mcad' is listed twice (list each stack once)"),
    "stacks and setups": (SMALL + "setups: {a: {stack: mcad}}\n", "s.yaml:3:1: 'stacks' and 'setups' contradict each other (write"),
    "expectation": (SMALL + "expect: [p99 < 3]\n", "s.yaml:5:10: unknown name 'p99' (did you mean 'p99_s'?)"),
    "expectation without quotes": (SMALL + "expect: outcome == clogged\n", "s.yaml:5:9: unknown name 'clogged' at its column 12 (put text in quotes: \"clogged\")"),
    "answer": (SMALL + "answer: [total_s, p9_s]\n", "s.yaml:5:19: unknown name 'p9_s' (did you mean 'p99_s'?)"),
    "answer of no identity": (SMALL + "answer: rejected(ndoes)\n", "s.yaml:5:9: unknown name 'rejected(ndoes)' (did you mean 'rejected(nodes)'?)"),
    "answer of no phase": (with_submit("name: prod, count: 1, duration: 1s") + "answer: ['p99_s(phase=prd)']\n", "s.yaml:6:10: unknown name 'p99_s(phase=prd)' (did you mean 'p99_s(phase=prod)'?)"),
    "answer that is a comparison": (SMALL + "answer: p99_s < 3\n", "s.yaml:5:9: `p99_s < 3` is not a figure (write one like p99_s, rejected(nodes)"),
    "answer of one set-up": (SMALL + "answer: p99_s(default)\n", "s.yaml:5:9: `p99_s(default)` is of one set-up (write p99_s: it is shown for every set-up)"),
    "answer that is a text": (SMALL + "answer: outcome\n", "s.yaml:5:9: 'outcome' is a text (write a figure that is a number)"),
    "expectation of no phase": (with_submit("name: prod, count: 1, duration: 1s") + "expect: ['p99_s(default, phase=prd) < 3']\n", "s.yaml:6:10: unknown name 'p99_s(default, phase=prd)' (did you mean 'p99_s(phase=prod)'?)"),
    "expectation of a figure that phases lack": (SMALL + "expect: cpu_util(phase=x) < 3\n", "s.yaml:5:9: 'cpu_util' is not known of single phases (these are: workloads, pods,"),
    "expectation of a team": (SMALL + "expect: p99_s(team=x) < 3\n", "s.yaml:5:9: figures cannot be asked by 'team' (write p99_s(phase=NAME))"),
    "expectation of a queue that is not there": (SMALL + "expect: p99_s(queue=x) < 3\n", "s.yaml:5:9: unknown queue 'x' at its column 13 (there are none; remove it)"),
    "expectation of another class": (with_submit("name: prod, class: long, count: 1, duration: 1s") + "expect: 'preempted(class=lnog) == 0'\n", "s.yaml:6:9: unknown class 'lnog' at its column 17 (did you mean 'long'?)"),
    "expectation of a figure that only queues have": (SMALL + "expect: share < 3\n", "s.yaml:5:9: 'share' is known only of single queues (write share(queue=NAME))"),
    "answer of another class": (SMALL + "answer: 'wait_p99_s(class=nobody)'\n", "s.yaml:5:9: unknown class 'nobody'"),
    "too many pods": (with_submit("count: 100000, pods: 100000, duration: 1s"), "s.yaml:5:13: 10,000,000,000 pods are more than a trial can hold"),
}  # fmt: skip

PARAMS = {
    "unknown param": ('{jobs: 1}', '"${jbos}"', "s.yaml:6:21: no param 'jbos' (did you mean 'jobs'?)"),
    "unknown param inside text": ('{jobs: 1}', '"1${jbos}"', "s.yaml:6:21: no param 'jbos' (did you mean 'jobs'?)"),
    "one of its values": ('{jobs: [1, -5]}', '"${jobs}"', "s.yaml:6:21: -5 is less than 1 (write 1 or more)"),
    "a list in a list": ('{jobs: [[1]]}', '"${jobs}"', "s.yaml:2:17: a list is not allowed here (write one number"),
    "no values": ('{jobs: []}', '"${jobs}"', "s.yaml:2:16: 'jobs' is empty (write at least one, or remove it)"),
    "a value twice": ('{jobs: [1, 2, 1]}', '"${jobs}"', "s.yaml:2:23: '1' is listed twice in 'jobs' (remove one)"),
    "a name that is taken": ('{total_s: 1}', '3', "s.yaml:2:10: 'total_s' is a column of summary.csv (choose another name)"),
    "a name nothing can refer to": ('{a-b: 1}', '3', "s.yaml:2:10: 'a-b' cannot be a name here (use letters, digits and _"),
}  # fmt: skip

GROUPS = {
    "unknown key": ("{name: a, cuont: 1, count: 1, capacity: {cpu: 1, memory: 1Gi}}", "s.yaml:2:19: unknown key 'cuont' in item 1 of 'nodes' (did you mean 'count'?)"),
    "no count": ("{name: a, capacity: {cpu: 1, memory: 1Gi}}", "s.yaml:2:9: item 1 of 'nodes' has no 'count' (add `count:` (how many nodes))"),
    "count of zero": ("{name: a, count: 0, capacity: {cpu: 1, memory: 1Gi}}", "s.yaml:2:26: 0 is less than 1 (write 1 or more)"),
    "no cpu": ("{name: a, count: 1, capacity: {memory: 1Gi}}", "s.yaml:2:39: capacity has no cpu (add it, like cpu: 8)"),
    "no memory to speak of": ("{name: a, count: 1, capacity: {cpu: 1, memory: 0}}", "s.yaml:2:39: capacity has no memory (add it, like memory: 32Gi)"),
    "quantity": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1GB}}", "s.yaml:2:56: '1GB' is not a quantity (write it like 500m"),
    "quantity over 64 bits": ("{name: a, count: 1, capacity: {cpu: 1, memory: 9000E}}", "s.yaml:2:56: '9000E' of memory is more than 64 bits hold"),
    "capital letters": ("{name: A, count: 1, capacity: {cpu: 1, memory: 1Gi}}", "s.yaml:2:16: 'A' cannot be a name here (use at most 40"),
    "no taint": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, taints: [x]}", "s.yaml:2:71: 'x' is not a taint (write it like key=value:NoSchedule"),
    "effect": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, taints: ['x:NoShedule']}", "s.yaml:2:71: unknown effect 'NoShedule' (did you mean 'NoSchedule'?)"),
    "label's key": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, labels: {'a b': c}}", "s.yaml:2:71: 'a b' cannot be the key of a label or taint (use at most 63 letters, digits"),
    "label's value": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, labels: {a: 'c d'}}", "s.yaml:2:74: 'c d' cannot be the value of a label or taint (use at most 63 letters, digits"),
    "taint's key": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, taints: ['a b=c:NoSchedule']}", "s.yaml:2:71: 'a b' cannot be the key of a label or taint"),
    "taint's value": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, taints: ['a=-c:NoSchedule']}", "s.yaml:2:71: '-c' cannot be the value of a label or taint"),
    "label": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, labels: {v: 1.10}}", "s.yaml:2:74: '1.1' is not a label's text (put it in quotes)"),
    "span": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, pods: {start: 3s..1s}}", "s.yaml:2:76: '3s..1s' ends before it begins (write 1s..3s)"),
    "kubelet with delays": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, kubelet: true, pods: {start: 3s}}", "s.yaml:2:77: 'pods' sets the delays of fake nodes; a kubelet has its own (remove `pods`"),
    "runtime of a fake node": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, runtime: {start: 3s}}", "s.yaml:2:62: 'runtime' has the times of played containers (remove it, or add `kubelet: true`"),
    "image without bandwidth": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, kubelet: true, runtime: {image: 1G}}", "s.yaml:2:87: 'image' goes with 'bandwidth'"),
    "kubelet of text": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}, kubelet: yes}", "s.yaml:2:71: 'yes' is no kind of kubelet (write true (its containers are played), containers (real ones) or false (a fake node))"),
    "two of a name": ("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}}, {name: a, count: 1, capacity: {cpu: 1, memory: 1}}", "s.yaml:2:70: two node groups are called 'a' (give each a different name)"),
}  # fmt: skip

SETUPS = {
    "stack": ("{stack: mcda, nodes: one}", "s.yaml:6:14: unknown stack 'mcda' (did you mean 'mcad'?)"),
    "no stack": ("{nodes: one}", "s.yaml:6:6: 'a' has no 'stack' (add `stack:` (the stack under test"),
    "key": ("{stack: mcad, nodes: one, clinet: {}}", "s.yaml:6:32: unknown key 'clinet' in 'a' (did you mean 'client'?)"),
    "nodes": ("{stack: mcad, nodes: oen}", "s.yaml:6:27: unknown entry of nodes 'oen' (did you mean 'one'?)"),
    "which nodes": ("{stack: mcad}", "s.yaml:6:6: which nodes? (add `nodes:` to each set-up, one of one, two)"),
    "component": ("{stack: mcad, nodes: one, settings: {kube-schedular: {qps: 1}}}", "s.yaml:6:43: unknown component 'kube-schedular' of stack mcad (did you mean 'kube-scheduler'?)"),
    "component of another stack": ("{stack: mcad, nodes: one, settings: {kueue: {qps: 1}}}", "s.yaml:6:43: unknown component 'kueue' of stack mcad"),
    "setting": ("{stack: mcad, nodes: one, settings: {kube-scheduler: {qqps: 1}}}", "s.yaml:6:60: unknown setting 'qqps' of kube-scheduler (did you mean 'qps'?)"),
    "number": ("{stack: mcad, nodes: one, settings: {kube-scheduler: {qps: -1}}}", "s.yaml:6:65: '-1' is not a number of 0 or more (client requests per second"),
    "choice": ("{stack: mcad, nodes: one, settings: {mcad: {version: '1.30'}}}", "s.yaml:6:59: mcad has no version '1.30' (did you mean '1.40'?)"),
    "one of a list": ("{stack: mcad, nodes: one, settings: {mcad: {actions: 'enqueue; alocate'}}}", "s.yaml:6:59: mcad.actions has no 'alocate' (did you mean 'allocate'?)"),
    "none of a list": ("{stack: mcad, nodes: one, settings: {mcad: {actions: ''}}}", "s.yaml:6:59: mcad.actions has no '' (known: enqueue, allocate)"),
    "text without quotes": ("{stack: mcad, nodes: one, settings: {mcad: {version: 1.32}}}", "s.yaml:6:59: '1.32' is not text (put it in quotes)"),
    "flag": ("{stack: mcad, nodes: one, settings: {mcad: {preempt: 1}}}", "s.yaml:6:59: '1' is neither true nor false (write true or false)"),
    "duration": ("{stack: kueue, nodes: one, settings: {kueue: {backoff: 10}}}", "s.yaml:6:61: '10' is not a duration (write it like 10s"),
    "qps": ("{stack: mcad, nodes: one, settings: {qps: many}}", "s.yaml:6:48: 'many' is not a choice of qps (write as shipped, unlimited or {equal: 500})"),
    "equal qps of zero": ("{stack: mcad, nodes: one, settings: {qps: {equal: 0}}}", "s.yaml:6:48: a mapping is not a choice of qps (write as shipped"),
}  # fmt: skip

SUBMITS = {
    "key": ("count: 1, duration: 1s, reqests: {}", "s.yaml:5:38: unknown key 'reqests' in 'submit' (did you mean 'requests'?)"),
    "selector's key": ("count: 1, duration: 1s, selector: {'a b': c}", "s.yaml:5:49: 'a b' cannot be the key of a label or taint"),
    "affinity's value": ("count: 1, duration: 1s, affinity: {a: [b, 'c d']}", "s.yaml:5:56: 'c d' cannot be the value of a label or taint"),
    "toleration's key": ("count: 1, duration: 1s, tolerations: ['a b=c']", "s.yaml:5:52: 'a b' cannot be the key of a label or taint"),
    "no count": ("duration: 1s", "s.yaml:5:13: submit needs 'count' (add the number of workloads, like count: 10)"),
    "negative count": ("count: -1, duration: 1s", "s.yaml:5:21: -1 is less than 1 (write 1 or more)"),
    "half a count": ("count: 1.5, duration: 1s", "s.yaml:5:21: '1.5' is not a whole number (write one like 10)"),
    "no duration": ("count: 1", "s.yaml:5:13: 'submit' has no 'duration' (add `duration:` (how long each pod runs"),
    "bare duration": ("count: 1, duration: 10", "s.yaml:5:34: '10' is not a duration (write it like 10s, 1m30s or 250ms)"),
    "sexagesimal duration": ("count: 1, duration: 1:30", "s.yaml:5:34: '1:30' is not a duration (write it like 10s"),
    "absurd duration": ("count: 1, duration: 99999999d", "s.yaml:5:34: '99999999d' is longer than ten years"),
    "negative request": ("count: 1, duration: 1s, requests: {cpu: -1}", "s.yaml:5:54: '-1' is not a quantity (write it like 500m"),
    "request of a list": ("count: 1, duration: 1s, requests: {cpu: []}", "s.yaml:5:54: a list is not allowed here (write it like 500m"),
    "requests of text": ("count: 1, duration: 1s, requests: cpu", "s.yaml:5:48: amounts are a mapping (write it like {cpu: 500m"),
    "pods of zero": ("count: 1, duration: 1s, pods: 0", "s.yaml:5:44: 0 is less than 1 (write 1 or more)"),
    "pods and sizes": ("count: 1, duration: 1s, pods: 2, sizes: [1]", "s.yaml:5:38: 'pods' and 'sizes' contradict each other (remove one of them)"),
    "count and each": ("count: 1, duration: 1s, each: 2, sizes: [1]", "s.yaml:5:38: 'each' and 'count' contradict each other (remove one"),
    "each without sizes": ("count: 1, duration: 1s, each: 2", "s.yaml:5:38: 'each' goes with 'sizes' (add 'sizes' or remove 'each'"),
    "order without sizes": ("count: 1, duration: 1s, order: given", "s.yaml:5:38: 'order' goes with 'sizes' (add 'sizes' or remove 'order'"),
    "no sizes": ("count: 1, duration: 1s, sizes: []", "s.yaml:5:45: 'sizes' is empty (write at least one"),
    "order": ("duration: 1s, sizes: [1], order: shufled", "s.yaml:5:47: unknown order 'shufled' (did you mean 'shuffled'?)"),
    "rate": ("count: 1, duration: 1s, rate: 10", "s.yaml:5:44: '10' is not a rate (write it like 10/s"),
    "rate of zero": ("count: 1, duration: 1s, rate: 0/s", "s.yaml:5:44: '0/s' is not a rate (write it like 10/s"),
    "two paces": ("count: 1, duration: 1s, rate: 1/s, parallel: 2", "s.yaml:5:49: 'parallel' and 'rate' contradict each other (remove one of them)"),
    "arrival alone": ("count: 1, duration: 1s, arrival: poisson", "s.yaml:5:38: 'arrival' goes with 'rate' (add 'rate' or remove 'arrival')"),
    "every alone": ("count: 1, duration: 1s, every: 5s", "s.yaml:5:38: 'every' goes with 'burst' (add 'burst'"),
    "delay alone": ("count: 1, duration: 1s, delay: 5s", "s.yaml:5:38: 'delay' goes with 'parallel' (add 'parallel'"),
    "burst alone": ("count: 1, duration: 1s, burst: 5", "s.yaml:5:38: 'burst' needs 'every' (add the time between bursts"),
    "every of no time": ("count: 1, duration: 1s, burst: 5, every: 0s", "s.yaml:5:55: '0s' takes no time (write a duration above zero"),
    "a pace for centuries": ("count: 1000000, duration: 1s, rate: 1/h", "s.yaml:5:13: at this pace submitting takes more than ten years (submit"),
    "toleration": ("count: 1, duration: 1s, tolerations: ['a:']", "s.yaml:5:52: 'a:' is not a toleration (write it like key=value"),
    "priority": ("count: 1, duration: 1s, priority: 9999999999", "s.yaml:5:48: 9999999999 is more than 1000000000 (write"),
    "gang": ("count: 1, duration: 1s, gang: yes", "s.yaml:5:44: 'yes' is neither true nor false (write true or false)"),
    "affinity": ("count: 1, duration: 1s, affinity: {zone: a}", "s.yaml:5:55: 'a' instead of a list (write it as [a, b]"),
}  # fmt: skip

PHASES = {
    "unknown action": ("  - sumbit: {count: 1}", "s.yaml:5:5: unknown key 'sumbit' in item 1 of 'steps' (did you mean 'submit'?)"),
    "two actions": ("  - pause: 1s\n    expect: failed == 0", "s.yaml:6:5: 'expect' and 'pause' in one phase (begin a new step: put `- ` before it)"),
    "no action": ("  - {}", "s.yaml:5:5: a phase without an action (write one of submit, wait"),
    "an empty step": ("  - []", "s.yaml:5:5: item 1 of 'steps' is empty (write at least one"),
    "a word": ("  - submit", "s.yaml:5:5: 'submit' instead of a mapping (write it as {key: value}"),
    "pause of nothing": ("  - pause: 0s", "s.yaml:5:12: '0s' takes no time (write a duration above zero, like 10s)"),
    "stage": ("  - submit: {count: 1, duration: 1s}\n  - wait: {for: runing}", "s.yaml:6:17: unknown stage 'runing' (did you mean 'running'?)"),
    "no stage": ("  - submit: {count: 1, duration: 1s}\n  - wait: {}", "s.yaml:6:11: 'wait' has no 'for' (add `for:` (the stage to wait for"),
    "phase": ("  - submit: {name: short, count: 1, duration: 1s}\n  - wait: {for: running, of: shrot}", "s.yaml:6:30: unknown submit or create phase 'shrot' (did you mean 'short'?)"),
    "one of the phases": ("  - submit: {name: short, count: 1, duration: 1s}\n  - wait: {for: running, of: [short, lnog]}", "s.yaml:6:38: unknown submit or create phase 'lnog'"),
    "a later phase": ("  - submit: {name: a, count: 1, duration: 1s}\n  - wait: {for: running, of: b}\n  - submit: {name: b, count: 1, duration: 1s}", "s.yaml:6:30: 'b' comes only later (name a submit of this step or an earlier one)"),
    "wait for nothing": ("  - wait: {for: running}", "s.yaml:5:11: nothing is submitted before this wait (put a submit before it)"),
    "wait for too many": ("  - submit: {count: 1, duration: 1s}\n  - wait: {for: running, count: 2}", "s.yaml:6:33: waits for 2 of 1 workloads (write 1 or less)"),
    "no timeout": ("  - submit: {count: 1, duration: 1s}\n  - wait: {for: running, timeout: 0s}", "s.yaml:6:35: '0s' takes no time"),
    "two of a name": ("  - submit: {name: a, count: 1, duration: 1s}\n  - submit: {name: a, count: 1, duration: 1s}", "s.yaml:6:20: two phases are called 'a' (give each a different name)"),
    "two of a given name": ("  - submit: {name: pause-2, count: 1, duration: 1s}\n  - pause: 1s", "s.yaml:6:12: two phases are called 'pause-2' (give each"),
    "nothing for the nodes": ("  - nodes: {}", "s.yaml:5:12: `nodes` without a change (write one of add, remove"),
    "two things for the nodes": ("  - nodes: {cordon: fake, remove: fake}", "s.yaml:5:13: 'cordon' and 'remove' in one phase (make two phases)"),
    "group": ("  - nodes: {cordon: fkae}", "s.yaml:5:21: unknown node group 'fkae' (did you mean 'fake'?)"),
    "kubelets of fake nodes": ("  - nodes: {stop: fake}", "s.yaml:5:19: 'stop' needs kubelets, and the nodes of 'fake' have none (give the group `kubelet: true`"),
    "trouble of real containers": ("  - nodes: {add: {name: r, count: 1, kubelet: containers, capacity: {cpu: 1, memory: 1Gi}}}\n  - nodes: {trouble: r, slow: 1s}", "s.yaml:6:22: 'trouble' is done to played containers, and those of 'r' are real (give the group `kubelet: true`, or use `stop` and `start`)"),
    "too many nodes": ("  - nodes: {cordon: fake, count: 3}", "s.yaml:5:34: 3 nodes of 'fake', which has 2 (write 2 or less)"),
    "a group there is": ("  - nodes: {add: {name: fake, count: 1, capacity: {cpu: 1, memory: 1Gi}}}", "s.yaml:5:25: a node group 'fake' exists already (give the new nodes"),
    "trouble of no kind": ("  - nodes: {trouble: fake}", "s.yaml:5:13: 'trouble' without saying which (add slow, fail-every, crash-every, disk)"),
    "trouble of a fake node": ("  - nodes: {trouble: fake, crash-every: 2}", "s.yaml:5:22: 'trouble' needs kubelets, and the nodes of 'fake' have none (give the group `kubelet: true`"),
    "crashes without trouble": ("  - nodes: {stop: fake, crash-every: 2}", "s.yaml:5:25: 'crash-every' goes with 'trouble' (add 'trouble' or remove 'crash-every'"),
    "every zeroth crash": ("  - nodes: {trouble: fake, crash-every: 0}", "s.yaml:5:41: 0 is"),
    "a group not yet there": ("  - nodes: {cordon: more}\n  - nodes: {add: {name: more, count: 1, capacity: {cpu: 1, memory: 1Gi}}}", "s.yaml:5:21: set-up 'default' has no node group 'more' at this point"),
    "delete of nothing": ("  - delete: {}", "s.yaml:5:5: delete needs 'of' or 'objects'"),
    "expectation": ("  - expect: [failed == 0, complete == 3]", "s.yaml:5:27: unknown name 'complete' (did you mean 'completed'?)"),
}  # fmt: skip


def check(text: str, expected: str) -> None:
    found = mistakes(text)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize(("text", "expected"), TOP.values(), ids=TOP.keys())
def test_a_wrong_top_level(text: str, expected: str) -> None:
    check(text, expected)


@pytest.mark.parametrize(("params", "count", "expected"), PARAMS.values(), ids=PARAMS.keys())
def test_a_wrong_param(params: str, count: str, expected: str) -> None:
    steps = f"steps:\n  - submit: {{count: {count}, duration: 1s}}\n"
    check(f"name: a\nparams: {params}\n{NODES}stacks: [default]\n{steps}", expected)


@pytest.mark.parametrize(("groups", "expected"), GROUPS.values(), ids=GROUPS.keys())
def test_a_wrong_node_group(groups: str, expected: str) -> None:
    check(f"name: a\nnodes: [{groups}]\nstacks: [default]\n{STEPS}", expected)


@pytest.mark.parametrize(("setup", "expected"), SETUPS.values(), ids=SETUPS.keys())
def test_a_wrong_setup(setup: str, expected: str) -> None:
    group = "[{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}}]"
    check(f"name: a\nnodes:\n  one: {group}\n  two: {group}\nsetups:\n  a: {setup}\n{STEPS}", expected)


@pytest.mark.parametrize(("submit", "expected"), SUBMITS.values(), ids=SUBMITS.keys())
def test_a_wrong_submit(submit: str, expected: str) -> None:
    check(with_submit(submit), expected)


@pytest.mark.parametrize(("steps", "expected"), PHASES.values(), ids=PHASES.keys())
def test_a_wrong_phase(steps: str, expected: str) -> None:
    check(with_steps(steps), expected)


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    found = mistakes(
        "name: all\nname: again\nparams: {jobs: [1, 0]}\nabuot: x\n"
        "nodes: [{name: A, count: 1, capacity: {cpu: 1x}}]\n"
        "setups: {a: {stack: defualt, settings: {kwokk: {}}}}\n"
        'steps:\n  - submit: {count: "${jobs}", burst: 2, rate: 1/s, duration: 5}\n  - wait: {for: runing, of: nobody}\n'
        "expect: complete == 1\n"
    )
    places = [line.split(": ")[0] for line in found]
    assert places == [
        "s.yaml:2:1", "s.yaml:4:1", "s.yaml:5:16", "s.yaml:5:39", "s.yaml:5:45", "s.yaml:6:21", "s.yaml:6:41",
        "s.yaml:8:21", "s.yaml:8:32", "s.yaml:8:32", "s.yaml:8:63", "s.yaml:9:17", "s.yaml:9:29", "s.yaml:10:9",
    ]  # fmt: skip


def test_what_hangs_on_a_wrong_param_is_not_said_twice() -> None:
    text = f'name: a\nparams: {{jobs: {{a: b}}}}\n{NODES}stacks: [default]\nsteps: [submit: {{count: "${{jobs}}", duration: 1s}}]'
    assert mistakes(text) == ["s.yaml:2:16: a mapping is not allowed here (write one number, text, true or false)"]


@pytest.mark.parametrize(
    ("options", "message", "remedy"),
    [
        ({"sets": {"jbos": [1]}}, "--set jbos: the scenario has no such param", "did you mean 'jobs'?"),
        ({"sets": {"jobs": []}}, "--set jobs: no value", "write it like --set jobs=10"),
        ({"sets": {"jobs": [1, 1]}}, "--set jobs: 1 is listed twice", "list each value once"),
        ({"pick_setups": ["defualt"]}, "--setup defualt: the scenario has no such set-up", "did you mean 'default'?"),
        ({"pick_stacks": ["mcda"]}, "--stack mcda: no such stack", "did you mean 'mcad'?"),
        ({"pick_stacks": ["mcad"], "pick_setups": ["default"]}, "--setup and --stack cannot be combined", "give only one"),
        ({"repeat": 0}, "--repeat 0 is less than 1", "write 1 or more"),
        ({"seed": -1}, "--seed -1 is less than 0", "write 0 or more"),
    ],
)  # fmt: skip
def test_a_wrong_option_says_what_to_write(options: dict[str, object], message: str, remedy: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        trials(SMALL + "params: {jobs: 1}\n", **options)
    assert caught.value.lines() == [message, remedy]


def test_ten_thousand_trials_are_enough() -> None:
    many = ", ".join(str(number) for number in range(101))
    found = mistakes(SMALL + f"params: {{a: [{many}], b: [{many}]}}\n")
    assert found == [
        "s.yaml:5:9: 10,201 trials are more than 10,000 (list fewer values, or pick some with --set and --setup)"
    ]


def test_repeats_count_as_trials() -> None:
    assert "20,000 trials" in mistakes(SMALL.replace("[default]", "[default, mcad]") + "repeat: 10000\n")[0]
