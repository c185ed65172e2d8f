"""What a client counts of itself, for as long as it lives: cheap enough to be counted always."""
