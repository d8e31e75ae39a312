"""Records transitions in the ledger: from watches during the run, from the audit log afterwards, each with its error bound."""
