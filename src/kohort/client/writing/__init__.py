"""Producer logic: batches, sequence numbers, transactions, requests to partition leaders."""
