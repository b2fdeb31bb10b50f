"""What is sampled when, and on what resources: nothing here takes a sample."""
