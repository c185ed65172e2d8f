"""What-if: prediction of a group after a change, computed with the real assignors."""
