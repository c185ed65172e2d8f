"""A small tree server as ZooKeeper is one, simulated: sessions, ephemeral nodes, one-shot watches."""
