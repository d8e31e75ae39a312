"""From what a cluster shows to the ledger: watches while the run goes on, the audit log afterwards, and how far to trust both."""
