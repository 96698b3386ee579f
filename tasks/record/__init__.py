"""The signed, hash-chained ledger, the approvers and the holdout key of a home."""
