"""Where a trial runs: three answers to one small interface (`model.interfaces.Cluster`)."""
