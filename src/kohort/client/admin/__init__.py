"""Ask and change what a cluster holds: topics, groups, offsets, options, transactions."""
