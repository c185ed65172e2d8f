"""Operations on clusters that commands and the console share: describe, predict, peek, reset offsets."""
