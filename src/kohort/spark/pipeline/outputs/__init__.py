"""Where rows go: topics, folders of Parquet, tables."""
