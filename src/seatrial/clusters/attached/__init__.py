"""Any cluster of a kubeconfig. It has other users, so the rules are strict:

- its context must be named; none is picked by default;
- what we create carries a label of this trial from its first moment, in a namespace and on fake nodes of our own, so that it can be
  found and removed by that label however the run ended;
- existing objects are never changed, and existing nodes get our pods only if the scenario says `nodes: {existing: SELECTOR}`.
"""
