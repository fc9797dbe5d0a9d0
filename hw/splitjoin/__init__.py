"""SplitJoin, block by block: a join of two streams by cores that need no coordination."""
