"""Simulated tree server in the manner of ZooKeeper: sessions, ephemeral nodes, one-shot watches."""
