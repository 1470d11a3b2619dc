"""The compilation screen: what torch.compile did, and what it had to do again."""
