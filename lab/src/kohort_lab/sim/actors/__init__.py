"""Who acts in a simulated world: brokers, clients, strangers, faults."""
