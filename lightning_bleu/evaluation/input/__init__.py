"""What a process does with the batches of a validation: they are read, counted, and kept until its end."""
