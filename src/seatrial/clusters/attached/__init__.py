"""Any cluster of a kubeconfig. It is somebody else's, so the rules are strict:

- its context must be named; nothing is picked by default;
- what we make carries a label of this trial alone from its first moment, in a namespace and on fake nodes of our own, so that
  everything can be found and removed by that label however the run ended;
- what was there before is never changed, and gets pods of ours only where the scenario says `nodes: {existing: SELECTOR}`.
"""
