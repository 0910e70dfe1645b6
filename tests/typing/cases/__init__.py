"""Files that type checkers are shown: what they must accept, and what they must refuse."""
