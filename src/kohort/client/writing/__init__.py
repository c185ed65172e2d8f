"""Producer: batches, sequence numbers, transactions, sending to partition leaders."""
