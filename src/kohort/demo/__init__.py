"""The main job: real flights, through a consumer group that loses a member, onto Spark, every row accounted for."""
